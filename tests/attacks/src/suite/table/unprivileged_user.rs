//! Attempts in an unprivileged user's sandbox, whose files belong to the same user and which may have no cgroups.

use pinfold_keeper_wire::DisabledGuard;

use crate::entry::{Act, Entry, Group, keepers_rights, without};
use crate::scenarios;

pub(super) const ENTRIES: &[Entry] = &[
    Entry::new(
        Group::Escape,
        "overwrite_the_runtime_of_its_user",
        "a sealed copy",
        Act::Scenario(|fixture| Box::pin(scenarios::keeper::overwrite_the_runtime(fixture))),
        without![DisabledGuard::RuntimeUnsealed],
    )
    .cve("CVE-2019-5736"),
    Entry::new(
        Group::Escape,
        "read_the_runtimes_file",
        "keeper not dumpable, with rights of its own",
        Act::Hostile(&["read-of-process-1", "exe"]),
        without![DisabledGuard::KeeperReadable, keepers_rights()],
    )
    .cve("CVE-2019-5736"),
    Entry::new(
        Group::Escape,
        "read_the_keepers_memory",
        "keeper not dumpable, with rights of its own",
        Act::Hostile(&["read-of-process-1", "mem"]),
        without![DisabledGuard::KeeperReadable, keepers_rights()],
    ),
    Entry::new(
        Group::Escape,
        "write_to_what_the_host_shares",
        "read-only shares",
        Act::Hostile(&["write-to-shared", "/usr", "/usr/bin", "{outside}"]),
        crate::entry::Proof::Without(|fixture| vec![DisabledGuard::HostDirectory(fixture.canary())]),
    ),
    super::shared_files::WATCH_A_NEIGHBOUR,
    super::shared_files::LOCK_BESIDE_A_NEIGHBOUR,
    super::keeper::HOLD_OUTPUT_BY_SPLICE,
    super::stopping::KILLED_WITHOUT_FIRST_THREAD,
];
