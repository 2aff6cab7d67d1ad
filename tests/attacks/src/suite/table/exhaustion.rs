//! Resource exhaustion. Every attempt is bounded, also where no limit stops it.

use pinfold_confine::SyscallGroup;
use pinfold_keeper_wire::DisabledGuard;

use crate::entry::{Act, Entry, Group, Proof, syscall_group, without};
use crate::scenarios;

const AS_LOW: Proof = Proof::Nowhere("the host's own limit may be as low");

const fn limited(name: &'static str, aims_at: &'static str, arguments: &'static [&'static str]) -> Entry {
    Entry::new(Group::Exhaustion, name, aims_at, Act::Hostile(arguments), Proof::Unlimited)
}

const fn unlimited(name: &'static str, aims_at: &'static str, arguments: &'static [&'static str]) -> Entry {
    Entry::new(Group::Exhaustion, name, aims_at, Act::Hostile(arguments), without![DisabledGuard::HostLimits])
}

/// Kernel memory that no memory limit counts.
const fn uncounted(
    name: &'static str,
    aims_at: &'static str,
    arguments: &'static [&'static str],
    proof: Proof,
) -> Entry {
    Entry::new(Group::Exhaustion, name, aims_at, Act::Hostile(arguments), proof)
}

const FILTERS: &str = "filter of SocketFilters";
const WITH_FILTERS: Proof = without![syscall_group(SyscallGroup::SocketFilters)];
const HUGE: &str = "filter of HugePages";
const WITH_HUGE: Proof = without![syscall_group(SyscallGroup::HugePages)];

pub(super) const ENTRIES: &[Entry] = &[
    uncounted("take_memory_by_filters_of_sockets", FILTERS, &["filter-of-a-socket"], WITH_FILTERS),
    uncounted("take_memory_by_filters_of_ports", FILTERS, &["filter-of-a-port"], WITH_FILTERS),
    uncounted("attach_a_bpf_program_to_a_socket", FILTERS, &["bpf-program-of-a-socket"], WITH_FILTERS),
    uncounted("attach_a_bpf_program_to_a_port", FILTERS, &["bpf-program-of-a-port"], WITH_FILTERS),
    uncounted("take_huge_pages", HUGE, &["huge-pages-by-mmap"], WITH_HUGE),
    uncounted("take_huge_pages_by_memfd", HUGE, &["huge-pages-by-memfd"], WITH_HUGE),
    uncounted("take_huge_pages_by_shared_segments", HUGE, &["huge-pages-by-a-segment"], WITH_HUGE),
    limited("fork_bomb", "processes", &["fork-bomb", "300"]),
    limited("thread_bomb", "processes", &["thread-bomb", "300"]),
    limited("take_memory", "memory", &["take-memory", "96"]),
    limited("take_memory_by_memfd", "memory", &["take-memory-by-memfd", "96"]),
    limited("take_memory_by_shared_segments", "memory", &["take-memory-by-shared-segments", "96"]),
    limited("take_memory_by_sockets", "memory", &["take-memory-by-sockets", "96"]),
    Entry::new(
        Group::Exhaustion,
        "take_memory_by_files_in_memory",
        "memory, size of /dev/shm",
        Act::Hostile(&["take-memory-by-files", "96"]),
        Proof::Nowhere("/dev/shm has a size of its own in every sandbox"),
    ),
    Entry::new(
        Group::Exhaustion,
        "take_memory_by_pipes",
        "memory, the kernel's share for a user",
        Act::Hostile(&["take-memory-by-pipes", "96"]),
        Proof::Nowhere("the kernel gives no user so much"),
    ),
    Entry::new(
        Group::Exhaustion,
        "fill_the_devices_directory",
        "/dev read-only",
        Act::Hostile(&["fill-the-devices-directory"]),
        Proof::OnItself(&["take-memory-by-files", "4"]),
    ),
    unlimited("open_files_without_end", "open files", &["open-files-without-end", "17000"]),
    Entry::new(
        Group::Exhaustion,
        "queues_without_end",
        "bytes in queues",
        Act::Hostile(&["queues-without-end", "12"]),
        AS_LOW,
    ),
    unlimited("signals_without_end", "queued signals", &["signals-without-end", "5000"]),
    Entry::new(
        Group::Exhaustion,
        "lock_memory",
        "locked memory",
        Act::Hostile(&["lock-memory", "16"]),
        AS_LOW,
    ),
    Entry::new(
        Group::Exhaustion,
        "terminals_without_end",
        "terminals",
        Act::Hostile(&["terminals-without-end", "300"]),
        without![DisabledGuard::UnlimitedTerminals],
    ),
    Entry::new(
        Group::Exhaustion,
        "watches_until_none_are_left_for_others",
        "watches",
        Act::Scenario(|fixture| Box::pin(scenarios::exhaustion::watches(fixture))),
        Proof::Nowhere("it would take from the host what other programs need"),
    ),
    Entry::new(
        Group::Exhaustion,
        "requests_until_none_are_left_for_others",
        "filter of AsyncIo",
        Act::Scenario(|fixture| Box::pin(scenarios::exhaustion::requests(fixture))),
        without![syscall_group(SyscallGroup::AsyncIo)],
    ),
    limited("fill_the_disk", "disk", &["fill-the-disk", "60"]),
    limited("files_without_end", "inodes", &["files-without-end", "5000"]),
    Entry::new(
        Group::Exhaustion,
        "spin",
        "cpu share",
        Act::Hostile(&["spin", "1500"]),
        Proof::Nowhere("how much is left over depends on what else the machine does"),
    )
    .with_cpu(300),
    Entry::new(
        Group::Exhaustion,
        "write_without_end",
        "output",
        Act::Scenario(|fixture| Box::pin(scenarios::exhaustion::output(fixture))),
        without![DisabledGuard::UnlimitedOutput],
    ),
    Entry::new(
        Group::Exhaustion,
        "arguments_without_end",
        "bounded messages",
        Act::Scenario(|fixture| Box::pin(scenarios::exhaustion::arguments(fixture))),
        Proof::Nowhere("nothing to get through to: it shows that the keeper goes on"),
    ),
    Entry::new(
        Group::Exhaustion,
        "forks_beside_a_neighbour",
        "pid namespace, processes",
        Act::Scenario(|fixture| Box::pin(scenarios::exhaustion::beside_a_neighbour(fixture))),
        Proof::Nowhere("an unbounded fork bomb would take the host along"),
    ),
];
