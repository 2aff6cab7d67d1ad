//! What an ordinary user's sandbox tries on files that are as much its own as his, and where no groups hold it.

use pinfold_keeper::weakness::Weakness;

use crate::entry::{Act, Entry, Group, keepers_rights, without};
use crate::scenes;

pub(super) const ENTRIES: &[Entry] = &[
    Entry::new(
        Group::Escape,
        "overwrite_the_runtime_of_its_user",
        "a sealed copy",
        Act::Scene(|stage| Box::pin(scenes::keeper::overwrite_the_runtime(stage))),
        without![Weakness::RuntimeUnsealed],
    )
    .cve("CVE-2019-5736"),
    Entry::new(
        Group::Escape,
        "read_the_runtimes_file",
        "keeper not dumpable, with rights of its own",
        Act::Hostile(&["read-of-process-1", "exe"]),
        without![Weakness::KeeperReadable, keepers_rights()],
    )
    .cve("CVE-2019-5736"),
    Entry::new(
        Group::Escape,
        "read_the_keepers_memory",
        "keeper not dumpable, with rights of its own",
        Act::Hostile(&["read-of-process-1", "mem"]),
        without![Weakness::KeeperReadable, keepers_rights()],
    ),
    Entry::new(
        Group::Escape,
        "write_to_what_the_host_shares",
        "read-only shares",
        Act::Hostile(&["write-to-shared", "/usr", "/usr/bin", "/etc/alternatives", "{outside}"]),
        crate::entry::Proof::Without(|stage| vec![Weakness::Shared(stage.canary())]),
    ),
    super::keeper::HOLD_OUTPUT_BY_SPLICE,
    super::stopping::KILLED_WITHOUT_FIRST_THREAD,
];
