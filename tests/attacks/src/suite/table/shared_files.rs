//! Attempts by files that every sandbox can open: the host's programs and the device files.

use pinfold_keeper_wire::DisabledGuard;

use crate::entry::{Act, Entry, Group, Scenario, without};
use crate::scenarios::shared_files as scenes;

const fn shared(name: &'static str, aims_at: &'static str, scene: Scenario) -> Entry {
    Entry::new(Group::Files, name, aims_at, Act::Scenario(scene), without![DisabledGuard::HostInodes])
}

const OVERLAY: &str = "inodes of its own (overlay)";
const NODES: &str = "device files of its own";

pub(super) const WATCH_A_NEIGHBOUR: Entry = shared("watch_what_a_neighbour_runs", OVERLAY, |fixture| {
    Box::pin(scenes::watch_a_neighbour(fixture, "/usr/bin"))
});
pub(super) const LOCK_BESIDE_A_NEIGHBOUR: Entry =
    shared("signal_a_neighbour_by_a_file_lock", OVERLAY, |fixture| {
        Box::pin(scenes::signal_a_neighbour(fixture, "file", "/usr/bin/env"))
    });

pub(super) const ENTRIES: &[Entry] = &[
    WATCH_A_NEIGHBOUR,
    shared("watch_what_the_host_runs", OVERLAY, |fixture| {
        Box::pin(scenes::watch_the_host(fixture, "/usr/bin/true"))
    }),
    LOCK_BESIDE_A_NEIGHBOUR,
    shared("hold_a_file_lock_against_the_host", OVERLAY, |fixture| {
        Box::pin(scenes::lock_against_the_host(fixture, "/usr/bin/id"))
    }),
    shared("signal_a_neighbour_by_a_record_lock", OVERLAY, |fixture| {
        Box::pin(scenes::signal_a_neighbour(fixture, "record", "/usr/bin/tr"))
    }),
    shared("flush_the_hosts_disk_by_a_shared_file", OVERLAY, |fixture| {
        Box::pin(scenes::flush_the_hosts_disk(fixture))
    }),
    shared("see_the_size_of_the_hosts_disk", OVERLAY, |fixture| {
        Box::pin(scenes::size_of_the_hosts_disk(fixture))
    }),
    shared("watch_the_hosts_null_device", NODES, |fixture| {
        Box::pin(scenes::watch_the_host(fixture, "/dev/null"))
    }),
    shared("signal_a_neighbour_by_the_null_device", NODES, |fixture| {
        Box::pin(scenes::signal_a_neighbour(fixture, "file", "/dev/full"))
    }),
];
