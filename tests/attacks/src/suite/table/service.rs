//! Attacks on file requests from outside.

use pinfold_keeper_wire::DisabledGuard;

use crate::entry::{Act, Entry, Group, Proof, without};
use crate::scenarios::{files, service};

macro_rules! asked {
    ($name:literal, $aims_at:literal, $scene:ident, $proof:expr) => {
        Entry::new(
            Group::Files,
            $name,
            $aims_at,
            Act::Scenario(|fixture| Box::pin(service::$scene(fixture))),
            $proof,
        )
    };
}

const BOUND: Proof = Proof::Nowhere("nothing to get through to: it shows that there is a bound");

pub(super) const ENTRIES: &[Entry] = &[
    asked!(
        "pipes_sockets_and_devices_that_are_asked_for",
        "plain files only",
        no_plain_files,
        Proof::Naive(service::naive_read_waits)
    ),
    asked!(
        "links_to_outside_that_are_asked_for",
        "paths within the root",
        links,
        Proof::Naive(service::naive_read_follows_links)
    ),
    asked!(
        "swap_a_directory_for_a_link_while_files_are_written",
        "paths within the root",
        swapped,
        Proof::Naive(service::naive_read_follows_links)
    ),
    asked!("grow_a_file_while_it_is_read", "the size at the beginning", growing, BOUND),
    asked!(
        "a_tree_too_deep_for_a_path_that_is_removed_on_request",
        "removal by descriptors",
        deep,
        Proof::Naive(files::naive_removal_stops_at_long_paths)
    ),
    asked!("more_requests_for_files_than_are_served", "requests at a time", many, BOUND),
    asked!(
        "look_into_whoever_serves_files",
        "not dumpable, as its keeper",
        look_into_the_server,
        without![DisabledGuard::KeeperReadable]
    ),
];
