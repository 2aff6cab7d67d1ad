//! Attacks by files: on probes, and on the removal of a sandbox's files.

use pinfold_keeper_wire::DisabledGuard;

use crate::entry::{Act, Entry, Group, Proof, without};
use crate::scenarios::files;

const REMOVAL: &str = "removal by descriptors";
const SAFE: Proof = Proof::Nowhere("nothing to get through to: it shows that a stop ends");

macro_rules! removed_after {
    ($name:literal, $arguments:expr, $proof:expr) => {
        Entry::new(
            Group::Files,
            $name,
            REMOVAL,
            Act::Scenario(|fixture| Box::pin(files::removed_after(fixture, &$arguments))),
            $proof,
        )
    };
}

pub(super) const ENTRIES: &[Entry] = &[
    removed_after!(
        "leave_links_to_outside",
        ["leave-links-to-outside", "{outside}", "{canary}", "/proc/1/root", ".."],
        Proof::Naive(files::naive_removal_follows_links)
    ),
    removed_after!(
        "leave_a_tree_too_deep_for_a_path",
        ["leave-a-deep-tree", "200"],
        Proof::Naive(files::naive_removal_stops_at_long_paths)
    ),
    removed_after!("leave_thousands_of_files", ["leave-many-files", "3000"], SAFE),
    removed_after!("leave_pipes_sockets_and_a_terabyte", ["leave-special-files"], SAFE),
    removed_after!(
        "leave_names_that_are_no_text",
        ["leave-strange-names"],
        Proof::Naive(files::naive_removal_stops_at_strange_names)
    ),
    removed_after!("leave_closed_directories", ["leave-closed-directories"], SAFE),
    removed_after!("leave_a_thousand_hard_links", ["leave-hard-links"], SAFE),
    Entry::new(
        Group::Files,
        "leave_an_immutable_file",
        "capabilities of the host",
        Act::Hostile(&["leave-an-immutable-file"]),
        Proof::Nowhere("the kernel itself wants a capability of the host first"),
    ),
    Entry::new(
        Group::Files,
        "swap_a_directory_for_a_link_while_it_is_removed",
        "killed first, removed then",
        Act::Scenario(|fixture| Box::pin(files::swap_while_removed(fixture))),
        Proof::Naive(files::naive_removal_follows_links),
    ),
    Entry::new(
        Group::Files,
        "pipe_in_place_of_the_probes_file",
        "a probe that opens nothing it finds",
        Act::Scenario(|fixture| Box::pin(files::pipe_in_place_of_the_probe(fixture))),
        without![DisabledGuard::ProbeFollowsLinks],
    ),
    Entry::new(
        Group::Files,
        "workspace_in_place_of_the_keepers_logs",
        "a probe that follows no link",
        Act::Scenario(|fixture| Box::pin(files::probe_in_a_descriptor(fixture))),
        without![DisabledGuard::ProbeFollowsLinks],
    ),
];
