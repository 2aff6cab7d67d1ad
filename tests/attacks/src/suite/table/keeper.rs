//! Attacks on the keeper: read it, use its descriptors, starve it, block it.

use pinfold_confine::SyscallGroup;
use pinfold_keeper_wire::DisabledGuard;

use crate::entry::{Act, Entry, Group, Proof, keepers_rights, syscall_group, without};
use crate::scenarios;

const READABLE: Proof = without![DisabledGuard::KeeperReadable, keepers_rights()];
const UNDUMPABLE: &str = "keeper not dumpable, with rights of its own";
const PROCESS_ONE: &str = "filter of ProcessOne, keeper with rights of its own";
const KERNEL: Proof = Proof::Nowhere("the kernel keeps process 1 from signals of its own namespace");
const HOSTS: Proof = Proof::Nowhere("the kernel itself wants a capability of the host first");

const fn hostile(
    name: &'static str,
    aims_at: &'static str,
    arguments: &'static [&'static str],
    proof: Proof,
) -> Entry {
    Entry::new(Group::Escape, name, aims_at, Act::Hostile(arguments), proof)
}

const fn starve(name: &'static str, arguments: &'static [&'static str]) -> Entry {
    Entry::new(
        Group::Exhaustion,
        name,
        PROCESS_ONE,
        Act::Hostile(arguments),
        without![syscall_group(SyscallGroup::ProcessOne), keepers_rights()],
    )
}

/// Also tried as an unprivileged user, whose sandboxes may have no cgroups.
pub(super) const HOLD_OUTPUT_BY_SPLICE: Entry = Entry::new(
    Group::Stopping,
    "hold_the_lock_of_its_output_by_splice",
    "filter of PipeLocks",
    Act::Scenario(|fixture| Box::pin(scenarios::keeper::hold_output(fixture, "splice"))),
    without![syscall_group(SyscallGroup::PipeLocks)],
);

pub(super) const ENTRIES: &[Entry] = &[
    hostile("read_the_keepers_environment", UNDUMPABLE, &["read-of-process-1", "environ"], READABLE),
    hostile("read_the_keepers_memory", UNDUMPABLE, &["read-of-process-1", "mem"], READABLE),
    hostile("read_where_the_keepers_memory_is", UNDUMPABLE, &["read-of-process-1", "maps"], READABLE),
    hostile("write_the_keepers_memory", UNDUMPABLE, &["write-memory-of-process-1"], READABLE),
    hostile("list_the_keepers_descriptors", UNDUMPABLE, &["list-of-process-1", "fd"], READABLE),
    hostile("walk_through_the_keepers_root", UNDUMPABLE, &["list-of-process-1", "root/"], READABLE),
    hostile(
        "walk_through_the_keepers_working_directory",
        UNDUMPABLE,
        &["list-of-process-1", "cwd/"],
        READABLE,
    ),
    hostile("trace_the_keeper", UNDUMPABLE, &["trace-process-1"], READABLE),
    hostile(
        "take_a_descriptor_of_the_keeper",
        "filter of ForeignMemory, keeper not dumpable",
        &["take-a-descriptor-of-process-1"],
        without![syscall_group(SyscallGroup::ForeignMemory), DisabledGuard::KeeperReadable, keepers_rights()],
    ),
    hostile(
        "read_the_keepers_memory_directly",
        "filter of ForeignMemory, keeper not dumpable",
        &["read-memory-of-process-1-directly"],
        without![syscall_group(SyscallGroup::ForeignMemory), DisabledGuard::KeeperReadable, keepers_rights()],
    ),
    starve("limit_the_keepers_open_files", &["limit-open-files-of-process-1"]),
    starve("limit_the_keepers_file_sizes", &["limit-file-sizes-of-process-1"]),
    starve("limit_the_keepers_cpu_time", &["limit-cpu-time-of-process-1"]),
    starve("make_the_keeper_idle", &["make-process-1-idle"]),
    starve("make_the_keeper_nice", &["be-nicer-than-process-1-wants"]),
    starve("make_all_of_its_user_nice", &["be-nicer-than-all-of-its-user"]),
    starve("pin_the_keeper_to_a_busy_processor", &["pin-process-1-to-a-processor"]),
    starve("make_the_keepers_disk_access_idle", &["make-disk-access-of-process-1-idle"]),
    starve("make_disk_access_of_all_its_user_idle", &["make-disk-access-of-all-its-user-idle"]),
    hostile(
        "offer_the_keeper_to_the_oom_killer",
        UNDUMPABLE,
        &["offer-process-1-to-the-oom-killer"],
        READABLE,
    ),
    hostile("escape_the_oom_killer", "capabilities of the host", &["escape-the-oom-killer"], HOSTS),
    hostile("run_at_real_time_priority", "capabilities of the host", &["real-time-priority"], HOSTS),
    hostile("kill_the_keeper", "process 1 of its namespace", &["kill-process-1"], KERNEL),
    Entry::new(
        Group::Stopping,
        "stop_all_it_can_see",
        "pid namespace",
        Act::Scenario(|fixture| Box::pin(scenarios::keeper::stop_all(fixture))),
        KERNEL,
    ),
    Entry::new(
        Group::Stopping,
        "stop_new_processes",
        "bounded wait for a child",
        Act::Scenario(|fixture| Box::pin(scenarios::keeper::stop_new_processes(fixture))),
        without![DisabledGuard::UnlimitedExecWait],
    ),
    Entry::new(
        Group::Stopping,
        "take_back_what_it_wrote",
        "reads that do not block",
        Act::Scenario(|fixture| Box::pin(scenarios::keeper::steal_output(fixture))),
        without![DisabledGuard::BlockingOutputReads, DisabledGuard::UnlimitedOutput],
    ),
    HOLD_OUTPUT_BY_SPLICE,
    Entry::new(
        Group::Stopping,
        "hold_the_lock_of_its_output_by_sendfile",
        "filter of PipeLocks",
        Act::Scenario(|fixture| Box::pin(scenarios::keeper::hold_output(fixture, "sendfile"))),
        without![syscall_group(SyscallGroup::PipeLocks)],
    ),
    Entry::new(
        Group::Exhaustion,
        "orphans_without_end",
        "reaping in turns",
        Act::Scenario(|fixture| Box::pin(scenarios::keeper::orphans(fixture))),
        Proof::Nowhere("whether a keeper without turns falls behind is a matter of the machine's speed"),
    ),
];
