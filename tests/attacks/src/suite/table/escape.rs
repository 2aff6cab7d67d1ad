//! Escapes by files, privileges and rarely used system calls.

use pinfold_confine::{CapabilitySet, SyscallGroup};
use pinfold_keeper_wire::DisabledGuard;

use crate::entry::{Act, Entry, Group, Proof, capability, keepers_rights, syscall_group, without};
use crate::scenarios;

const SETTINGS: &str = "read-only /proc/sys";
const HIDDEN: &str = "hidden paths";
const NOT_EVERYWHERE: Proof =
    Proof::Nowhere("not every kernel has it; what hides it is proved at the next ones");
const LOADS: Proof = Proof::Nowhere("if the calls were allowed, the host's kernel could load a module");

const fn escape(name: &'static str, aims_at: &'static str, act: Act, proof: Proof) -> Entry {
    Entry::new(Group::Escape, name, aims_at, act, proof)
}

const fn hostile(
    name: &'static str,
    aims_at: &'static str,
    arguments: &'static [&'static str],
    proof: Proof,
) -> Entry {
    escape(name, aims_at, Act::Hostile(arguments), proof)
}

/// A setting of the whole kernel, proved on one of the sandbox's own queues.
const fn setting(name: &'static str, arguments: &'static [&'static str]) -> Entry {
    let harmless = &["write-kernel-setting", "/proc/sys/kernel/msgmax"];
    hostile(name, SETTINGS, arguments, Proof::WithoutAt(|_| vec![DisabledGuard::ProcSysWritable], harmless))
}

const fn hidden(name: &'static str, arguments: &'static [&'static str]) -> Entry {
    hostile(name, HIDDEN, arguments, without![DisabledGuard::MaskedPathsVisible])
}

const fn mounting(name: &'static str, arguments: &'static [&'static str]) -> Entry {
    let proof = without![syscall_group(SyscallGroup::Mounts), capability(CapabilitySet::SYS_ADMIN)];
    hostile(name, "filter of Mounts, no sys_admin", arguments, proof)
}

pub(super) const ENTRIES: &[Entry] = &[
    setting("set_the_pattern_of_core_files", &["write-kernel-setting", "/proc/sys/kernel/core_pattern"]),
    setting("set_the_program_that_loads_modules", &["write-kernel-setting", "/proc/sys/kernel/modprobe"]),
    setting("allow_magic_keys", &["write-kernel-setting", "/proc/sys/kernel/sysrq"]),
    setting("panic_on_a_setting", &["write-kernel-setting", "/proc/sys/kernel/panic"]),
    setting("change_a_setting_of_its_own_queues", &["write-kernel-setting", "/proc/sys/kernel/msgmax"]),
    hostile(
        "set_the_helper_for_device_events",
        "read-only /sys",
        &["open-for-writing", "/sys/kernel/uevent_helper"],
        Proof::Nowhere("the file belongs to the host root, which no process inside can become"),
    ),
    hostile(
        "press_magic_keys",
        "hidden paths, ids",
        &["open-for-writing", "/proc/sysrq-trigger"],
        Proof::Nowhere("a process that can open it can restart the machine"),
    ),
    hostile("read_the_kernels_memory", HIDDEN, &["see-hidden-path", "/proc/kcore"], NOT_EVERYWHERE),
    hidden("read_the_hosts_keys", &["see-hidden-path", "/proc/keys"]),
    hidden("read_the_hosts_timers", &["see-hidden-path", "/proc/timer_list"]),
    hostile(
        "see_the_trigger_of_magic_keys",
        HIDDEN,
        &["see-hidden-path", "/proc/sysrq-trigger"],
        NOT_EVERYWHERE,
    ),
    hidden("see_the_hosts_power_control", &["see-hidden-path", "/proc/acpi"]),
    hidden("read_the_hosts_firmware", &["see-hidden-path", "/sys/firmware"]),
    hidden("read_the_hosts_command_line", &["see-hidden-path", "/proc/cmdline"]),
    hidden("read_what_the_hosts_disks_do", &["see-hidden-path", "/proc/diskstats"]),
    hidden("read_the_hosts_partitions", &["see-hidden-path", "/proc/partitions"]),
    hidden("read_the_hosts_interrupts", &["see-hidden-path", "/proc/interrupts"]),
    hidden("read_the_hosts_soft_interrupts", &["see-hidden-path", "/proc/softirqs"]),
    hidden("read_how_the_hosts_memory_is_split", &["see-hidden-path", "/proc/zoneinfo"]),
    hidden("read_the_hosts_swap_files", &["see-hidden-path", "/proc/swaps"]),
    hidden("read_the_hosts_address_ranges", &["see-hidden-path", "/proc/iomem"]),
    hidden("read_the_hosts_filesystems", &["see-hidden-path", "/proc/fs"]),
    hidden("read_the_hosts_pci_devices", &["see-hidden-path", "/proc/bus"]),
    hostile(
        "read_the_kernels_configuration",
        HIDDEN,
        &["see-hidden-path", "/proc/config.gz"],
        NOT_EVERYWHERE,
    ),
    hostile("read_the_kernels_symbols", HIDDEN, &["see-hidden-path", "/proc/kallsyms"], NOT_EVERYWHERE),
    hostile("read_the_hosts_modules", HIDDEN, &["see-hidden-path", "/proc/modules"], NOT_EVERYWHERE),
    hostile("read_how_busy_the_host_is", HIDDEN, &["see-hidden-path", "/proc/pressure"], NOT_EVERYWHERE),
    hidden("list_the_hosts_disks", &["see-hidden-path", "/sys/block"]),
    hidden("list_the_hosts_disks_by_class", &["see-hidden-path", "/sys/class/block"]),
    hidden("list_the_hosts_disks_by_number", &["see-hidden-path", "/sys/dev/block"]),
    hidden("search_for_disks_of_other_sandboxes", &["find-disks-in-sys"]),
    hostile(
        "write_to_what_the_host_shares",
        "read-only shares",
        &["write-to-shared", "/usr", "/usr/bin", "{outside}"],
        Proof::Without(|fixture| vec![DisabledGuard::HostDirectory(fixture.canary())]),
    ),
    hostile(
        "read_a_file_of_the_host_by_its_path",
        "root of its own",
        &["read-canary-by-its-path"],
        Proof::Without(|fixture| vec![DisabledGuard::HostDirectory(fixture.canary())]),
    ),
    hostile(
        "walk_up_from_the_root",
        "pivot_root",
        &["walk-up-from-the-root"],
        Proof::Without(|fixture| vec![DisabledGuard::HostDirectory(fixture.canary())]),
    ),
    hostile(
        "break_out_by_a_second_chroot",
        "pivot_root",
        &["break-out-of-a-chroot"],
        Proof::OnItself(&["break-out-of-a-chroot", "/tmp/jail"]),
    ),
    hostile(
        "make_a_device_for_the_hosts_disk",
        "user namespace",
        &["make-a-block-device"],
        Proof::Nowhere("the kernel creates no device in a user namespace"),
    ),
    hostile(
        "find_the_hosts_disks",
        "/dev of its own",
        &["find-the-hosts-disks"],
        Proof::Nowhere("a sandbox that has one could write to it"),
    ),
    escape(
        "use_a_device_node_that_came_with_its_files",
        "nodev, user namespace",
        Act::Scenario(|fixture| Box::pin(scenarios::images::use_a_device_node(fixture))),
        Proof::Naive(scenarios::images::a_device_of_the_host_opens),
    ),
    hostile(
        "become_root_by_a_setuid_file",
        "no_new_privs, nosuid",
        &["root-by-a-setuid-file", "{hostile}"],
        without![DisabledGuard::NewPrivilegesGranted, DisabledGuard::SetuidHonoured],
    ),
    hostile(
        "gain_a_capability_by_a_file",
        "no_new_privs, nosuid, bounding set",
        &["capability-by-a-file", "{hostile}"],
        without![
            DisabledGuard::NewPrivilegesGranted,
            DisabledGuard::SetuidHonoured,
            capability(CapabilitySet::SETFCAP | CapabilitySet::NET_ADMIN)
        ],
    ),
    hostile(
        "raise_a_capability_it_does_not_have",
        "capability sets",
        &["raise-a-capability"],
        without![capability(CapabilitySet::SYS_ADMIN)],
    ),
    hostile(
        "keep_capabilities_by_the_ambient_set",
        "securebits",
        &["raise-an-ambient-capability"],
        without![DisabledGuard::AmbientCapabilitiesAllowed],
    )
    .cve("CVE-2022-24769"),
    hostile(
        "find_inheritable_capabilities",
        "empty inheritable sets",
        &["find-inheritable-capabilities"],
        without![DisabledGuard::InheritableCapabilitiesKept],
    )
    .cve("CVE-2022-29162"),
    hostile(
        "write_through_a_leaked_directory",
        "no descriptor but three",
        &["write-through-a-leaked-directory"],
        Proof::Without(|fixture| vec![DisabledGuard::LeakedDirectory(fixture.canary())]),
    )
    .cve("CVE-2024-21626"),
    escape(
        "start_in_a_directory_of_the_keeper",
        "no descriptor before exec",
        Act::Scenario(|fixture| Box::pin(scenarios::keeper::start_in_a_descriptor(fixture))),
        without![DisabledGuard::DescriptorsKeptUntilExec],
    )
    .cve("CVE-2024-21626"),
    escape(
        "start_a_program_by_a_descriptor_of_the_keeper",
        "no descriptor before exec",
        Act::Scenario(|fixture| Box::pin(scenarios::keeper::start_by_a_descriptor(fixture))),
        without![DisabledGuard::DescriptorsKeptUntilExec],
    )
    .cve("CVE-2024-21626"),
    hostile(
        "reopen_a_file_of_the_host_for_writing",
        "ids, read-only shares",
        &["reopen-a-descriptor-for-writing", "/usr/bin/true"],
        Proof::WithoutAt(
            |fixture| vec![DisabledGuard::HostDirectory(fixture.canary())],
            &["reopen-a-descriptor-for-writing", "{canary}"],
        ),
    ),
    hostile(
        "link_a_file_of_the_host_into_its_own",
        "mounts of their own",
        &["link-a-file-of-the-host", "/usr/bin/true", "/tmp/link"],
        Proof::OnItself(&["link-a-file-of-the-host", "/etc/passwd", "/tmp/link"]),
    ),
    escape(
        "overwrite_the_runtime_by_its_own_exe",
        "ids",
        Act::Scenario(|fixture| Box::pin(scenarios::keeper::overwrite_the_runtime(fixture))),
        Proof::Nowhere("root's runtime would have to be world-writable; proved as an unprivileged user"),
    )
    .cve("CVE-2019-5736"),
    hostile(
        "read_the_runtimes_file",
        "keeper not dumpable, with rights of its own",
        &["read-of-process-1", "exe"],
        without![DisabledGuard::KeeperReadable, keepers_rights()],
    )
    .cve("CVE-2019-5736"),
    escape(
        "plant_links_where_mounts_will_be",
        "a root that is made anew",
        Act::Scenario(|fixture| Box::pin(scenarios::files::plant_links(fixture))),
        Proof::Naive(scenarios::images::naive_setup_follows_links),
    )
    .cve("CVE-2021-30465"),
    escape(
        "dev_is_a_link_in_its_image",
        "mounts on real directories",
        Act::Scenario(|fixture| Box::pin(scenarios::images::links_in_place_of(fixture, &["dev"]))),
        Proof::Naive(scenarios::images::naive_setup_follows_links),
    )
    .cve("CVE-2026-41579"),
    escape(
        "places_of_mounts_are_links_in_its_image",
        "mounts on real directories",
        Act::Scenario(|fixture| {
            Box::pin(scenarios::images::links_in_place_of(fixture, &["proc", "sys", "tmp", "workspace"]))
        }),
        Proof::Naive(scenarios::images::naive_setup_follows_links),
    )
    .cve("CVE-2026-34078"),
    escape(
        "console_is_a_link_in_its_image",
        "/dev of its own, no console",
        Act::Scenario(|fixture| Box::pin(scenarios::images::console_is_a_link(fixture))),
        Proof::Naive(scenarios::images::naive_setup_follows_links),
    )
    .cve("CVE-2025-52565"),
    hostile(
        "child_less_confined_than_its_parent",
        "inherited filters",
        &["child-less-confined-than-its-parent"],
        Proof::Nowhere("the kernel itself passes filters on; this notices if it did not"),
    )
    .cve("CVE-2026-32048"),
    mounting("mount_a_filesystem", &["mount-a-filesystem"]),
    mounting("mount_by_the_new_calls", &["mount-by-the-new-calls"]),
    mounting("mount_the_control_groups", &["mount-the-control-groups"]),
    mounting("mount_a_hierarchy_with_a_release_agent", &["mount-a-release-agent"]).cve("CVE-2022-0492"),
    mounting("mount_binfmt_misc", &["mount-binfmt-misc"]),
    mounting("remount_the_hosts_programs_writable", &["remount-the-hosts-programs-writable"]),
    mounting("remount_kernel_settings_writable", &["remount-kernel-settings-writable"]).cve("CVE-2025-52881"),
    mounting("unmount_what_hides_a_path", &["unmount-what-hides-a-path"]).cve("CVE-2025-31133"),
    mounting("pivot_to_another_root", &["pivot-to-another-root"]),
    hostile(
        "nested_user_namespace_by_unshare",
        "filter of Namespaces",
        &["nested-user-namespace-by-unshare"],
        without![syscall_group(SyscallGroup::Namespaces)],
    ),
    hostile(
        "nested_user_namespace_by_clone",
        "filter of Namespaces",
        &["nested-user-namespace-by-clone"],
        without![syscall_group(SyscallGroup::Namespaces)],
    ),
    hostile(
        "nested_user_namespace_by_clone3",
        "filter of Namespaces",
        &["nested-user-namespace-by-clone3"],
        without![syscall_group(SyscallGroup::Namespaces)],
    ),
    hostile(
        "nested_root_that_mounts",
        "filters of Namespaces and Mounts",
        &["nested-root-that-mounts"],
        without![syscall_group(SyscallGroup::Namespaces), syscall_group(SyscallGroup::Mounts)],
    ),
    hostile(
        "nested_root_that_sniffs_packets",
        "filters of Namespaces and SocketFamilies",
        &["nested-root-that-sniffs-packets"],
        without![syscall_group(SyscallGroup::Namespaces), syscall_group(SyscallGroup::SocketFamilies)],
    ),
    hostile(
        "enter_namespaces_of_process_1",
        "filter of Namespaces, keeper not dumpable",
        &["enter-namespaces-of-process-1"],
        without![syscall_group(SyscallGroup::Namespaces), keepers_rights(), DisabledGuard::KeeperReadable],
    ),
    hostile(
        "enter_a_namespace_by_setns",
        "filter of Namespaces",
        &["enter-its-own-namespace-again"],
        without![syscall_group(SyscallGroup::Namespaces), capability(CapabilitySet::SYS_ADMIN)],
    ),
    hostile(
        "open_files_by_handle",
        "filter of FileHandles",
        &["open-files-by-handle"],
        without![syscall_group(SyscallGroup::FileHandles)],
    ),
    hostile(
        "i386_calls_past_the_filter",
        "filter of ForeignCalls",
        &["i386-calls-past-the-filter"],
        without![syscall_group(SyscallGroup::ForeignCalls)],
    ),
    hostile(
        "x32_calls_past_the_filter",
        "unknown calls",
        &["x32-calls-past-the-filter"],
        Proof::Nowhere("no disabled guard allows it"),
    ),
    hostile(
        "calls_of_tomorrow",
        "unknown calls",
        &["calls-of-tomorrow"],
        Proof::Nowhere("no disabled guard allows it"),
    ),
    hostile(
        "io_uring_past_the_filter",
        "filter of IoUring",
        &["io-uring-past-the-filter"],
        without![syscall_group(SyscallGroup::IoUring)],
    ),
    hostile(
        "load_a_bpf_program",
        "filter of Bpf",
        &["load-a-bpf-program"],
        without![syscall_group(SyscallGroup::Bpf)],
    ),
    hostile(
        "count_performance_events",
        "filter of Perf",
        &["count-performance-events"],
        without![syscall_group(SyscallGroup::Perf)],
    ),
    hostile(
        "hold_the_kernel_by_userfaultfd",
        "filter of Userfaultfd",
        &["hold-the-kernel-by-userfaultfd"],
        without![syscall_group(SyscallGroup::Userfaultfd)],
    ),
    hostile(
        "secret_memory_that_nobody_counts",
        "filter of SecretMemory",
        &["secret-memory-outside-the-limit"],
        without![syscall_group(SyscallGroup::SecretMemory)],
    ),
    hostile(
        "watch_others_files_by_fanotify",
        "filter of FileMonitors",
        &["watch-others-files-by-fanotify"],
        without![syscall_group(SyscallGroup::FileMonitors)],
    ),
    hostile(
        "leave_a_key_for_other_sandboxes",
        "filter of Keyrings",
        &["leave-a-key-in-a-keyring"],
        without![syscall_group(SyscallGroup::Keyrings)],
    ),
    hostile(
        "read_the_kernel_log",
        "filter of Machine",
        &["read-the-kernel-log"],
        Proof::Nowhere("the kernel itself wants a capability of the host first"),
    ),
    hostile(
        "rename_the_host",
        "filter of Machine",
        &["rename-the-host"],
        without![syscall_group(SyscallGroup::Machine), capability(CapabilitySet::SYS_ADMIN)],
    ),
    hostile(
        "make_memory_executable_by_personality",
        "filter of Personality",
        &["make-memory-executable-by-personality"],
        without![syscall_group(SyscallGroup::Personality)],
    ),
    hostile(
        "type_into_a_terminal",
        "filter of TerminalInput",
        &["type-into-a-terminal"],
        without![syscall_group(SyscallGroup::TerminalInput)],
    )
    .cve("CVE-2017-5226"),
    hostile(
        "paste_into_a_console",
        "filter of TerminalInput",
        &["paste-into-a-console"],
        without![syscall_group(SyscallGroup::TerminalInput)],
    )
    .cve("CVE-2023-1523"),
    hostile(
        "change_a_terminals_driver",
        "filter of TerminalInput",
        &["change-a-terminals-driver"],
        without![syscall_group(SyscallGroup::TerminalInput)],
    ),
    hostile(
        "socket_of_packets",
        "filter of SocketFamilies, no net_raw",
        &["socket-packet"],
        without![syscall_group(SyscallGroup::SocketFamilies), capability(CapabilitySet::NET_RAW)],
    ),
    hostile("socket_of_the_kernels_ciphers", "filter of SocketFamilies", &["socket-alg"], LOADS),
    hostile("socket_to_the_hypervisor", "filter of SocketFamilies", &["socket-vsock"], LOADS),
    hostile("socket_of_rxrpc", "filter of SocketFamilies", &["socket-rxrpc"], LOADS),
    hostile(
        "netlink_of_device_events",
        "filter of NetlinkProtocols",
        &["netlink-uevents"],
        without![syscall_group(SyscallGroup::NetlinkProtocols)],
    ),
    hostile("netlink_of_ipsec", "filter of NetlinkProtocols", &["netlink-xfrm"], LOADS),
    hostile("netlink_of_the_firewall", "filter of NetlinkProtocols", &["netlink-netfilter"], LOADS),
    hostile(
        "tls_in_the_kernel",
        "filter of KernelTls",
        &["kernel-tls"],
        without![syscall_group(SyscallGroup::KernelTls)],
    ),
    hostile(
        "tunnel_code_of_the_kernel_on_a_socket",
        "filter of UdpEncapsulation",
        &["encapsulate-udp"],
        without![syscall_group(SyscallGroup::UdpEncapsulation)],
    ),
    hostile(
        "shared_memory_of_the_host",
        "ipc namespace",
        &["shared-memory-of-the-host"],
        without![DisabledGuard::HostIpc],
    ),
];
