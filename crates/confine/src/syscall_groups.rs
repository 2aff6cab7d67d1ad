//! Groups of system calls that are denied in a sandbox: the calls of each group, how each is denied, and the reason.
//! A group can be allowed by itself, for workloads that need it and for the attack suite, which proves each denial.

use libc::c_long;
use rustix::io::Errno;

use super::allowed_calls::number;
use super::program::{ArgumentCondition, ArgumentRule, ValueSet};

/// A kernel interface that ordinary programs do not need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "weakened", derive(serde::Serialize, serde::Deserialize))]
pub enum SyscallGroup {
    Namespaces,
    Mounts,
    FileHandles,
    IoUring,
    Bpf,
    Perf,
    FileMonitors,
    Keyrings,
    Userfaultfd,
    SecretMemory,
    ForeignMemory,
    Tracing,
    Numa,
    KernelCode,
    Machine,
    Clock,
    Personality,
    TerminalInput,
    SocketFamilies,
    NetlinkProtocols,
    InetProtocols,
    KernelTls,
    SocketFilters,
    UdpEncapsulation,
    HugePages,
    ProcessOne,
    PipeLocks,
    AsyncIo,
    WriteBack,
    ForeignCalls,
}

/// How a denied group treats one call.
pub(super) enum DenyRule {
    /// The call fails with EPERM.
    Eperm(c_long),
    /// The call fails with ENOSYS, as on a kernel without it, so that libc falls back.
    Enosys(c_long),
    /// The call fails with EINVAL, as on unsupported files, so that programs fall back to read and write.
    Einval(c_long),
    /// The call is not executed and returns 0.
    ReturnZero(c_long),
    /// The call is denied only with certain arguments.
    IfArguments(c_long, &'static [ArgumentRule]),
}

use DenyRule::{Einval, Enosys, Eperm, IfArguments, ReturnZero};

impl SyscallGroup {
    pub const ALL: &[Self] = &[
        Self::Namespaces,
        Self::Mounts,
        Self::FileHandles,
        Self::IoUring,
        Self::Bpf,
        Self::Perf,
        Self::FileMonitors,
        Self::Keyrings,
        Self::Userfaultfd,
        Self::SecretMemory,
        Self::ForeignMemory,
        Self::Tracing,
        Self::Numa,
        Self::KernelCode,
        Self::Machine,
        Self::Clock,
        Self::Personality,
        Self::TerminalInput,
        Self::SocketFamilies,
        Self::NetlinkProtocols,
        Self::InetProtocols,
        Self::KernelTls,
        Self::SocketFilters,
        Self::UdpEncapsulation,
        Self::HugePages,
        Self::ProcessOne,
        Self::PipeLocks,
        Self::AsyncIo,
        Self::WriteBack,
        Self::ForeignCalls,
    ];

    /// Why the group is denied, in one line for a table.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Namespaces => {
                "root in a nested user namespace reaches most of the kernel's privileged code"
            }
            Self::Mounts => "the sandbox's mounts are final; mounting has been used in many escapes",
            Self::FileHandles => "a handle opens files outside of the sandbox's mounts",
            Self::IoUring => "performs other calls without seccomp checks; many kernel bugs",
            Self::Bpf => "runs programs in the kernel; verifier bugs give full control",
            Self::Perf => "observes other processes; many kernel bugs",
            Self::FileMonitors => "fanotify observes and blocks file access of others; inotify is allowed",
            Self::Keyrings => "keys are not namespaced by sandbox",
            Self::Userfaultfd => "pauses the kernel in the middle of a copy: commonly used to win races",
            Self::SecretMemory => "pages that cannot be reclaimed, counted or inspected",
            Self::ForeignMemory => "reaches memory and descriptors of other processes",
            Self::Tracing => "debuggers need it, so it is allowed by default; the keeper cannot be traced",
            Self::Numa => "moves pages of other processes; programs run without it",
            Self::KernelCode => "modules and kexec replace the kernel",
            Self::Machine => "swap, quotas, ports, reboot, kernel log, host name belong to the operator",
            Self::Clock => "the clock is shared by the whole host",
            Self::Personality => "old execution modes weaken address randomisation and limits",
            Self::TerminalInput => {
                "injects input into the operator's terminal (CVE-2017-5226), or changes its driver"
            }
            Self::SocketFamilies => "rare protocols are loaded on demand and poorly tested",
            Self::NetlinkProtocols => "route netlink answers queries; the others configure the kernel",
            Self::InetProtocols => "SCTP, DCCP, MPTCP, SMC and L2TP are loaded on demand and poorly tested",
            Self::KernelTls => "TCP_ULP attaches kernel code to a connection; TLS in user space works",
            Self::SocketFilters => {
                "SO_ATTACH_FILTER and the like run programs in the kernel, whose memory is charged to no sandbox"
            }
            Self::UdpEncapsulation => "UDP_ENCAP attaches tunnel code of the kernel to a socket",
            Self::HugePages => {
                "they come from a pool of the whole host, beside the memory limit; programs use ordinary pages"
            }
            Self::ProcessOne => {
                "the workload has the keeper's ids and could limit its files, processors and priority"
            }
            Self::PipeLocks => {
                "splice and sendfile wait with a pipe locked and could block the keeper; programs fall back"
            }
            Self::AsyncIo => "io_setup consumes a host-wide quota; programs use threads instead",
            Self::WriteBack => {
                "sync flushes all filesystems of the host; it returns success and does nothing, fsync works"
            }
            Self::ForeignCalls => {
                "i386 calls have other numbers, so these rules do not apply; they kill the process"
            }
        }
    }

    pub(super) fn deny_rules(self) -> &'static [DenyRule] {
        match self {
            Self::Namespaces => NAMESPACES,
            Self::Mounts => MOUNTS,
            Self::FileHandles => &[Eperm(libc::SYS_open_by_handle_at), Eperm(libc::SYS_name_to_handle_at)],
            Self::IoUring => &[
                Eperm(libc::SYS_io_uring_setup),
                Eperm(libc::SYS_io_uring_enter),
                Eperm(libc::SYS_io_uring_register),
            ],
            Self::Bpf => &[Eperm(libc::SYS_bpf)],
            Self::Perf => &[Eperm(libc::SYS_perf_event_open)],
            Self::FileMonitors => &[Eperm(libc::SYS_fanotify_init), Eperm(libc::SYS_fanotify_mark)],
            Self::Keyrings => {
                &[Eperm(libc::SYS_add_key), Eperm(libc::SYS_request_key), Eperm(libc::SYS_keyctl)]
            }
            Self::Userfaultfd => &[Eperm(libc::SYS_userfaultfd)],
            Self::SecretMemory => &[Eperm(libc::SYS_memfd_secret)],
            Self::ForeignMemory => &[
                Eperm(libc::SYS_process_vm_readv),
                Eperm(libc::SYS_process_vm_writev),
                Eperm(libc::SYS_process_madvise),
                Eperm(libc::SYS_process_mrelease),
                Eperm(libc::SYS_pidfd_getfd),
                Eperm(libc::SYS_kcmp),
            ],
            Self::Tracing => &[Eperm(libc::SYS_ptrace)],
            Self::Numa => &[
                Eperm(libc::SYS_mbind),
                Eperm(libc::SYS_get_mempolicy),
                Eperm(libc::SYS_set_mempolicy),
                Eperm(libc::SYS_set_mempolicy_home_node),
                Eperm(libc::SYS_migrate_pages),
                Eperm(libc::SYS_move_pages),
            ],
            Self::KernelCode => &[
                Eperm(libc::SYS_init_module),
                Eperm(libc::SYS_finit_module),
                Eperm(libc::SYS_delete_module),
                Eperm(libc::SYS_kexec_load),
                Eperm(libc::SYS_kexec_file_load),
            ],
            Self::Machine => MACHINE,
            Self::Clock => &[
                Eperm(libc::SYS_settimeofday),
                Eperm(libc::SYS_clock_settime),
                Eperm(libc::SYS_adjtimex),
                Eperm(libc::SYS_clock_adjtime),
            ],
            Self::Personality => &[IfArguments(libc::SYS_personality, UNUSUAL_PERSONALITY)],
            Self::TerminalInput => &[IfArguments(libc::SYS_ioctl, TERMINAL_INPUT)],
            Self::SocketFamilies => {
                &[IfArguments(libc::SYS_socket, RARE_FAMILY), IfArguments(libc::SYS_socketpair, RARE_FAMILY)]
            }
            Self::NetlinkProtocols => &[IfArguments(libc::SYS_socket, RARE_NETLINK)],
            Self::InetProtocols => &[IfArguments(libc::SYS_socket, RARE_INET)],
            Self::KernelTls => &[IfArguments(libc::SYS_setsockopt, UPPER_LAYER_PROTOCOL)],
            Self::SocketFilters => &[IfArguments(libc::SYS_setsockopt, SOCKET_FILTER)],
            Self::UdpEncapsulation => &[IfArguments(libc::SYS_setsockopt, UDP_ENCAPSULATION)],
            Self::HugePages => HUGE_PAGES,
            Self::ProcessOne => PROCESS_ONE,
            Self::PipeLocks => PIPE_LOCKS,
            Self::AsyncIo => &[
                Enosys(libc::SYS_io_setup),
                Enosys(libc::SYS_io_destroy),
                Enosys(libc::SYS_io_submit),
                Enosys(libc::SYS_io_cancel),
                Enosys(libc::SYS_io_getevents),
                Enosys(number::SYS_io_pgetevents),
            ],
            // syncfs on a directory shared from the host syncs the host's disk.
            Self::WriteBack => &[ReturnZero(libc::SYS_sync), ReturnZero(libc::SYS_syncfs)],
            // Decided by the architecture check, before any call number.
            Self::ForeignCalls => &[],
        }
    }
}

// clone3 passes its flags by pointer, which seccomp cannot follow.
const NAMESPACES: &[DenyRule] = &[
    IfArguments(libc::SYS_clone, &[deny_if(Errno::PERM, &[NEW_NAMESPACE_BY_CLONE])]),
    IfArguments(libc::SYS_unshare, &[deny_if(Errno::PERM, &[NEW_NAMESPACE_BY_UNSHARE])]),
    Enosys(libc::SYS_clone3),
    Eperm(libc::SYS_setns),
];

const MOUNTS: &[DenyRule] = &[
    Eperm(libc::SYS_mount),
    Eperm(libc::SYS_umount2),
    Eperm(libc::SYS_pivot_root),
    Eperm(libc::SYS_move_mount),
    Eperm(libc::SYS_open_tree),
    Eperm(number::SYS_open_tree_attr),
    Eperm(libc::SYS_mount_setattr),
    Eperm(libc::SYS_fsopen),
    Eperm(libc::SYS_fsconfig),
    Eperm(libc::SYS_fsmount),
    Eperm(libc::SYS_fspick),
];

const MACHINE: &[DenyRule] = &[
    Eperm(libc::SYS_reboot),
    Eperm(libc::SYS_swapon),
    Eperm(libc::SYS_swapoff),
    Eperm(libc::SYS_acct),
    Eperm(libc::SYS_quotactl),
    Eperm(libc::SYS_quotactl_fd),
    Eperm(libc::SYS_syslog),
    Eperm(libc::SYS_vhangup),
    Eperm(libc::SYS_sethostname),
    Eperm(libc::SYS_setdomainname),
    Eperm(libc::SYS_lookup_dcookie),
    Eperm(libc::SYS_nfsservctl),
    #[cfg(target_arch = "x86_64")]
    Eperm(libc::SYS_iopl),
    #[cfg(target_arch = "x86_64")]
    Eperm(libc::SYS_ioperm),
    #[cfg(target_arch = "x86_64")]
    Eperm(libc::SYS_modify_ldt),
];

const NEW_NAMESPACES: u32 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP)
    .cast_unsigned();

/// Only for `unshare`: in `clone` this bit is part of the exit signal.
const NEW_TIME_NAMESPACE: u32 = 0x80;

const NEW_NAMESPACE_BY_CLONE: ArgumentCondition =
    ArgumentCondition { argument: 0, mask: NEW_NAMESPACES, values: ValueSet::NoneOf(&[0]) };
const NEW_NAMESPACE_BY_UNSHARE: ArgumentCondition = ArgumentCondition {
    argument: 0,
    mask: NEW_NAMESPACES | NEW_TIME_NAMESPACE,
    values: ValueSet::NoneOf(&[0]),
};

/// Rules of `unshare` for the keeper, which creates a cgroup namespace for each execution.
pub(super) const KEEPER_UNSHARE: &[ArgumentRule] = &[deny_if(
    Errno::PERM,
    &[ArgumentCondition {
        argument: 0,
        mask: (NEW_NAMESPACES & !NEW_CGROUP_NAMESPACE) | NEW_TIME_NAMESPACE,
        values: ValueSet::NoneOf(&[0]),
    }],
)];
/// Rules of `unshare` for the keeper's children: no cgroup namespaces either.
pub(super) const CHILD_UNSHARE: &[ArgumentRule] = &[deny_if(
    Errno::PERM,
    &[ArgumentCondition { argument: 0, mask: NEW_CGROUP_NAMESPACE, values: ValueSet::NoneOf(&[0]) }],
)];
const NEW_CGROUP_NAMESPACE: u32 = libc::CLONE_NEWCGROUP.cast_unsigned();

/// Allowed: Linux, with 32-bit uname or without address randomisation (as debuggers set it), and the query of the
/// current personality.
const UNUSUAL_PERSONALITY: &[ArgumentRule] =
    &[deny_if(Errno::PERM, &[none_of(0, &[0, 0x8, 0x2_0000, 0x2_0008, 0x4_0000, u32::MAX])])];

/// TIOCSTI, TIOCLINUX and TIOCSETD.
const TERMINAL_INPUT: &[ArgumentRule] = &[deny_if(Errno::PERM, &[one_of(1, &[0x5412, 0x541c, 0x5423])])];

const UNIX: u32 = libc::AF_UNIX.cast_unsigned();
const INET: u32 = libc::AF_INET.cast_unsigned();
const INET6: u32 = libc::AF_INET6.cast_unsigned();
const NETLINK: u32 = libc::AF_NETLINK.cast_unsigned();

const RARE_FAMILY: &[ArgumentRule] =
    &[deny_if(Errno::AFNOSUPPORT, &[none_of(0, &[UNIX, INET, INET6, NETLINK])])];

/// All but NETLINK_ROUTE, which libc uses to list interfaces.
const RARE_NETLINK: &[ArgumentRule] =
    &[deny_if(Errno::PROTONOSUPPORT, &[one_of(0, &[NETLINK]), none_of(2, &[0])])];

/// Allowed: stream, datagram and raw sockets (which need a capability) of TCP, UDP and ICMP.
const RARE_INET: &[ArgumentRule] = &[
    deny_if(
        Errno::SOCKTNOSUPPORT,
        &[
            one_of(0, &[INET, INET6]),
            ArgumentCondition { argument: 1, mask: 0xf, values: ValueSet::NoneOf(&[1, 2, 3]) },
        ],
    ),
    deny_if(Errno::PROTONOSUPPORT, &[one_of(0, &[INET, INET6]), none_of(2, &[0, 1, 6, 17, 58])]),
];

/// Calls that change limits, processors or priorities of process 1 by its id, or of all processes of its user.
const PROCESS_ONE: &[DenyRule] = &[
    IfArguments(libc::SYS_prlimit64, OF_PROCESS_ONE),
    IfArguments(libc::SYS_sched_setaffinity, OF_PROCESS_ONE),
    IfArguments(libc::SYS_sched_setscheduler, OF_PROCESS_ONE),
    IfArguments(libc::SYS_sched_setparam, OF_PROCESS_ONE),
    IfArguments(libc::SYS_sched_setattr, OF_PROCESS_ONE),
    // PRIO_PROCESS on pid 1, and PRIO_USER.
    IfArguments(
        libc::SYS_setpriority,
        &[
            deny_if(Errno::PERM, &[one_of(0, &[0]), one_of(1, &[1])]),
            deny_if(Errno::PERM, &[one_of(0, &[2])]),
        ],
    ),
    IfArguments(
        libc::SYS_ioprio_set,
        &[
            deny_if(Errno::PERM, &[one_of(0, &[1]), one_of(1, &[1])]),
            deny_if(Errno::PERM, &[one_of(0, &[3])]),
        ],
    ),
];

/// Pid 1 as seen inside is always the keeper: nested pid namespaces are denied.
const OF_PROCESS_ONE: &[ArgumentRule] = &[deny_if(Errno::PERM, &[one_of(0, &[1])])];

/// Between a pipe and a socket these calls wait for the socket with the pipe locked. Readers and writers of that pipe
/// then block, even with O_NONBLOCK. vmsplice and tee release the pipe before they wait and hold the lock no longer than
/// read and write do.
const PIPE_LOCKS: &[DenyRule] = &[Einval(libc::SYS_splice), Einval(libc::SYS_sendfile)];

/// TCP_ULP at level TCP.
const UPPER_LAYER_PROTOCOL: &[ArgumentRule] =
    &[deny_if(Errno::NOPROTOOPT, &[one_of(1, &[6]), one_of(2, &[31])])];

/// SO_ATTACH_FILTER, SO_ATTACH_BPF, SO_ATTACH_REUSEPORT_CBPF and SO_ATTACH_REUSEPORT_EBPF at level SOL_SOCKET.
const SOCKET_FILTER: &[ArgumentRule] =
    &[deny_if(Errno::PERM, &[one_of(1, &[1]), one_of(2, &[26, 50, 51, 52])])];

/// UDP_ENCAP at level UDP.
const UDP_ENCAPSULATION: &[ArgumentRule] =
    &[deny_if(Errno::NOPROTOOPT, &[one_of(1, &[17]), one_of(2, &[100])])];

/// MAP_HUGETLB, MFD_HUGETLB and SHM_HUGETLB fail with ENOMEM, as where no huge page is free. A limit by the cgroup
/// controller of huge pages would need that controller, which an ordinary user and many hosts do not have.
const HUGE_PAGES: &[DenyRule] = &[
    IfArguments(libc::SYS_mmap, &[deny_if(Errno::NOMEM, &[has_flag(3, libc::MAP_HUGETLB.cast_unsigned())])]),
    IfArguments(libc::SYS_memfd_create, &[deny_if(Errno::NOMEM, &[has_flag(1, libc::MFD_HUGETLB)])]),
    IfArguments(
        libc::SYS_shmget,
        &[deny_if(Errno::NOMEM, &[has_flag(2, libc::SHM_HUGETLB.cast_unsigned())])],
    ),
];

const fn has_flag(argument: u8, flag: u32) -> ArgumentCondition {
    ArgumentCondition { argument, mask: flag, values: ValueSet::NoneOf(&[0]) }
}

const fn deny_if(errno: Errno, when: &'static [ArgumentCondition]) -> ArgumentRule {
    ArgumentRule { when, errno }
}

const fn one_of(argument: u8, values: &'static [u32]) -> ArgumentCondition {
    ArgumentCondition { argument, mask: u32::MAX, values: ValueSet::OneOf(values) }
}

const fn none_of(argument: u8, values: &'static [u32]) -> ArgumentCondition {
    ArgumentCondition { argument, mask: u32::MAX, values: ValueSet::NoneOf(values) }
}
