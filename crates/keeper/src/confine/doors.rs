//! The doors into the kernel that a sandbox finds shut: which calls each one holds, how a call is refused, and why.
//! A door can be opened by itself, for what really needs it and to show that an attack on it is real.

use libc::c_long;
use rustix::io::Errno;

use super::calls::number;
use super::program::{Clause, Condition, Masked};

/// A way into the kernel that ordinary programs do not need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "weakened", derive(serde::Serialize, serde::Deserialize))]
pub enum Door {
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
    ProcessOne,
    PipeLocks,
    AsyncIo,
    WriteBack,
    ForeignCalls,
}

/// How a door shuts one call.
pub(super) enum Shut {
    /// The whole call, with EPERM.
    Call(c_long),
    /// The whole call, as if this kernel did not have it, so that libc takes another way.
    Missing(c_long),
    /// The whole call, as if it did not fit these files, so that programs read and write instead.
    Unfit(c_long),
    /// The whole call, with success and nothing done.
    Feigned(c_long),
    /// Only with certain arguments.
    When(c_long, &'static [Clause]),
}

use Shut::{Call, Feigned, Missing, Unfit, When};

impl Door {
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
        Self::ProcessOne,
        Self::PipeLocks,
        Self::AsyncIo,
        Self::WriteBack,
        Self::ForeignCalls,
    ];

    /// Why it is shut, in a line for a table.
    pub fn why(self) -> &'static str {
        match self {
            Self::Namespaces => {
                "root in a nested user namespace reaches most of the kernel's privileged code"
            }
            Self::Mounts => "the sandbox's view of files is final; mounting has been a way out of many",
            Self::FileHandles => "a handle opens files outside of the view",
            Self::IoUring => "does what other calls do without being seen by seccomp; many kernel bugs",
            Self::Bpf => "programs in the kernel; verifier bugs give all of it away",
            Self::Perf => "reads what other programs do, and many kernel bugs",
            Self::FileMonitors => "fanotify sees and holds up others' file access; inotify is there",
            Self::Keyrings => "keys are not namespaced by sandbox",
            Self::Userfaultfd => "holds the kernel still in the middle of a copy: the usual lever for a race",
            Self::SecretMemory => "pages that nobody can reclaim, count or inspect",
            Self::ForeignMemory => "another process's memory and descriptors, past its own walls",
            Self::Tracing => "debuggers need it, so it is open by default; the keeper cannot be traced",
            Self::Numa => "moves others' pages; programs do without",
            Self::KernelCode => "modules and kexec replace the kernel",
            Self::Machine => "swap, quotas, ports, reboot, kernel log, host name: the operator's",
            Self::Clock => "the time is everyone's",
            Self::Personality => "old execution modes weaken address randomisation and limits",
            Self::TerminalInput => {
                "types into the terminal of whoever watches (CVE-2017-5226), or changes its driver"
            }
            Self::SocketFamilies => "rare protocols are loaded on demand and little tested",
            Self::NetlinkProtocols => "route netlink answers questions; the others configure the kernel",
            Self::InetProtocols => "SCTP, DCCP, MPTCP, SMC and L2TP are loaded on demand and little tested",
            Self::KernelTls => "TCP_ULP puts other code under a connection; TLS in user space is there",
            Self::ProcessOne => {
                "the keeper has the ids of what it keeps, which could limit its files, processors and priority"
            }
            Self::PipeLocks => {
                "splice and sendfile wait with a pipe locked, and the keeper for the lock; programs fall back"
            }
            Self::AsyncIo => {
                "io_setup takes from a number that all of the host share; programs use threads instead"
            }
            Self::WriteBack => {
                "sync makes the host write all of its files; it succeeds and does nothing, and fsync is there"
            }
            Self::ForeignCalls => "i386 calls have other numbers, so no rule here would fit them; they kill",
        }
    }

    pub(super) fn shuts(self) -> &'static [Shut] {
        match self {
            Self::Namespaces => NAMESPACES,
            Self::Mounts => MOUNTS,
            Self::FileHandles => &[Call(libc::SYS_open_by_handle_at), Call(libc::SYS_name_to_handle_at)],
            Self::IoUring => &[
                Call(libc::SYS_io_uring_setup),
                Call(libc::SYS_io_uring_enter),
                Call(libc::SYS_io_uring_register),
            ],
            Self::Bpf => &[Call(libc::SYS_bpf)],
            Self::Perf => &[Call(libc::SYS_perf_event_open)],
            Self::FileMonitors => &[Call(libc::SYS_fanotify_init), Call(libc::SYS_fanotify_mark)],
            Self::Keyrings => &[Call(libc::SYS_add_key), Call(libc::SYS_request_key), Call(libc::SYS_keyctl)],
            Self::Userfaultfd => &[Call(libc::SYS_userfaultfd)],
            Self::SecretMemory => &[Call(libc::SYS_memfd_secret)],
            Self::ForeignMemory => &[
                Call(libc::SYS_process_vm_readv),
                Call(libc::SYS_process_vm_writev),
                Call(libc::SYS_process_madvise),
                Call(libc::SYS_process_mrelease),
                Call(libc::SYS_pidfd_getfd),
                Call(libc::SYS_kcmp),
            ],
            Self::Tracing => &[Call(libc::SYS_ptrace)],
            Self::Numa => &[
                Call(libc::SYS_mbind),
                Call(libc::SYS_get_mempolicy),
                Call(libc::SYS_set_mempolicy),
                Call(libc::SYS_set_mempolicy_home_node),
                Call(libc::SYS_migrate_pages),
                Call(libc::SYS_move_pages),
            ],
            Self::KernelCode => &[
                Call(libc::SYS_init_module),
                Call(libc::SYS_finit_module),
                Call(libc::SYS_delete_module),
                Call(libc::SYS_kexec_load),
                Call(libc::SYS_kexec_file_load),
            ],
            Self::Machine => MACHINE,
            Self::Clock => &[
                Call(libc::SYS_settimeofday),
                Call(libc::SYS_clock_settime),
                Call(libc::SYS_adjtimex),
                Call(libc::SYS_clock_adjtime),
            ],
            Self::Personality => &[When(libc::SYS_personality, UNUSUAL_PERSONALITY)],
            Self::TerminalInput => &[When(libc::SYS_ioctl, TERMINAL_INPUT)],
            Self::SocketFamilies => {
                &[When(libc::SYS_socket, RARE_FAMILY), When(libc::SYS_socketpair, RARE_FAMILY)]
            }
            Self::NetlinkProtocols => &[When(libc::SYS_socket, RARE_NETLINK)],
            Self::InetProtocols => &[When(libc::SYS_socket, RARE_INET)],
            Self::KernelTls => &[When(libc::SYS_setsockopt, UPPER_LAYER_PROTOCOL)],
            Self::ProcessOne => PROCESS_ONE,
            Self::PipeLocks => PIPE_LOCKS,
            Self::AsyncIo => &[
                Missing(libc::SYS_io_setup),
                Missing(libc::SYS_io_destroy),
                Missing(libc::SYS_io_submit),
                Missing(libc::SYS_io_cancel),
                Missing(libc::SYS_io_getevents),
                Missing(number::SYS_io_pgetevents),
            ],
            // syncfs of a directory that the host shares is a sync of the host's disk.
            Self::WriteBack => &[Feigned(libc::SYS_sync), Feigned(libc::SYS_syncfs)],
            // Judged by the architecture, before any call number.
            Self::ForeignCalls => &[],
        }
    }
}

// clone3 has its flags behind a pointer, where seccomp cannot look.
const NAMESPACES: &[Shut] = &[
    When(libc::SYS_clone, &[refuse(Errno::PERM, &[NEW_NAMESPACE_BY_CLONE])]),
    When(libc::SYS_unshare, &[refuse(Errno::PERM, &[NEW_NAMESPACE_BY_UNSHARE])]),
    Missing(libc::SYS_clone3),
    Call(libc::SYS_setns),
];

const MOUNTS: &[Shut] = &[
    Call(libc::SYS_mount),
    Call(libc::SYS_umount2),
    Call(libc::SYS_pivot_root),
    Call(libc::SYS_move_mount),
    Call(libc::SYS_open_tree),
    Call(number::SYS_open_tree_attr),
    Call(libc::SYS_mount_setattr),
    Call(libc::SYS_fsopen),
    Call(libc::SYS_fsconfig),
    Call(libc::SYS_fsmount),
    Call(libc::SYS_fspick),
];

const MACHINE: &[Shut] = &[
    Call(libc::SYS_reboot),
    Call(libc::SYS_swapon),
    Call(libc::SYS_swapoff),
    Call(libc::SYS_acct),
    Call(libc::SYS_quotactl),
    Call(libc::SYS_quotactl_fd),
    Call(libc::SYS_syslog),
    Call(libc::SYS_vhangup),
    Call(libc::SYS_sethostname),
    Call(libc::SYS_setdomainname),
    Call(libc::SYS_lookup_dcookie),
    Call(libc::SYS_nfsservctl),
    #[cfg(target_arch = "x86_64")]
    Call(libc::SYS_iopl),
    #[cfg(target_arch = "x86_64")]
    Call(libc::SYS_ioperm),
    #[cfg(target_arch = "x86_64")]
    Call(libc::SYS_modify_ldt),
];

const NEW_NAMESPACES: u32 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP)
    .cast_unsigned();

/// Not known to `clone`, where its bit is part of the child's last signal.
const NEW_TIME_NAMESPACE: u32 = 0x80;

const NEW_NAMESPACE_BY_CLONE: Condition =
    Condition { argument: 0, mask: NEW_NAMESPACES, masked: Masked::NoneOf(&[0]) };
const NEW_NAMESPACE_BY_UNSHARE: Condition =
    Condition { argument: 0, mask: NEW_NAMESPACES | NEW_TIME_NAMESPACE, masked: Masked::NoneOf(&[0]) };

/// What is left of the door for the keeper, who gives each execution its own view of control groups.
pub(super) const NAMESPACES_OF_KEEPER: &[Clause] = &[refuse(
    Errno::PERM,
    &[Condition {
        argument: 0,
        mask: (NEW_NAMESPACES & !VIEW_OF_GROUPS) | NEW_TIME_NAMESPACE,
        masked: Masked::NoneOf(&[0]),
    }],
)];
/// What shuts it for the keeper's children.
pub(super) const VIEWS_OF_GROUPS: &[Clause] =
    &[refuse(Errno::PERM, &[Condition { argument: 0, mask: VIEW_OF_GROUPS, masked: Masked::NoneOf(&[0]) }])];
const VIEW_OF_GROUPS: u32 = libc::CLONE_NEWCGROUP.cast_unsigned();

/// Linux, with 32-bit uname or without address randomisation as debuggers set it, and the question for the
/// present one.
const UNUSUAL_PERSONALITY: &[Clause] =
    &[refuse(Errno::PERM, &[none_of(0, &[0, 0x8, 0x2_0000, 0x2_0008, 0x4_0000, u32::MAX])])];

/// TIOCSTI, TIOCLINUX and TIOCSETD.
const TERMINAL_INPUT: &[Clause] = &[refuse(Errno::PERM, &[one_of(1, &[0x5412, 0x541c, 0x5423])])];

const UNIX: u32 = libc::AF_UNIX.cast_unsigned();
const INET: u32 = libc::AF_INET.cast_unsigned();
const INET6: u32 = libc::AF_INET6.cast_unsigned();
const NETLINK: u32 = libc::AF_NETLINK.cast_unsigned();

const RARE_FAMILY: &[Clause] = &[refuse(Errno::AFNOSUPPORT, &[none_of(0, &[UNIX, INET, INET6, NETLINK])])];

/// All but NETLINK_ROUTE, by which libc asks for its interfaces.
const RARE_NETLINK: &[Clause] = &[refuse(Errno::PROTONOSUPPORT, &[one_of(0, &[NETLINK]), none_of(2, &[0])])];

/// Streams, datagrams and raw sockets (which want a capability) of TCP, UDP and ICMP.
const RARE_INET: &[Clause] = &[
    refuse(
        Errno::SOCKTNOSUPPORT,
        &[
            one_of(0, &[INET, INET6]),
            Condition { argument: 1, mask: 0xf, masked: Masked::NoneOf(&[1, 2, 3]) },
        ],
    ),
    refuse(Errno::PROTONOSUPPORT, &[one_of(0, &[INET, INET6]), none_of(2, &[0, 1, 6, 17, 58])]),
];

/// What changes the lot of process 1 by its id, or of everybody who has its user: limits, processors, priorities.
const PROCESS_ONE: &[Shut] = &[
    When(libc::SYS_prlimit64, OF_PROCESS_ONE),
    When(libc::SYS_sched_setaffinity, OF_PROCESS_ONE),
    When(libc::SYS_sched_setscheduler, OF_PROCESS_ONE),
    When(libc::SYS_sched_setparam, OF_PROCESS_ONE),
    When(libc::SYS_sched_setattr, OF_PROCESS_ONE),
    // By process, and by user.
    When(
        libc::SYS_setpriority,
        &[refuse(Errno::PERM, &[one_of(0, &[0]), one_of(1, &[1])]), refuse(Errno::PERM, &[one_of(0, &[2])])],
    ),
    When(
        libc::SYS_ioprio_set,
        &[refuse(Errno::PERM, &[one_of(0, &[1]), one_of(1, &[1])]), refuse(Errno::PERM, &[one_of(0, &[3])])],
    ),
];

/// Nobody inside has a process 1 of his own: there are no nested namespaces.
const OF_PROCESS_ONE: &[Clause] = &[refuse(Errno::PERM, &[one_of(0, &[1])])];

/// Between a pipe and a socket they wait for the socket and keep the pipe locked meanwhile, and whoever reads or writes
/// that pipe then waits for them, also if it asked not to wait. vmsplice and tee let go of the pipe before they wait:
/// what they do with the lock is no more than what read and write do.
const PIPE_LOCKS: &[Shut] = &[Unfit(libc::SYS_splice), Unfit(libc::SYS_sendfile)];

/// TCP_ULP at level TCP.
const UPPER_LAYER_PROTOCOL: &[Clause] = &[refuse(Errno::NOPROTOOPT, &[one_of(1, &[6]), one_of(2, &[31])])];

const fn refuse(refusal: Errno, when: &'static [Condition]) -> Clause {
    Clause { when, refusal }
}

const fn one_of(argument: u8, values: &'static [u32]) -> Condition {
    Condition { argument, mask: u32::MAX, masked: Masked::OneOf(values) }
}

const fn none_of(argument: u8, values: &'static [u32]) -> Condition {
    Condition { argument, mask: u32::MAX, masked: Masked::NoneOf(values) }
}
