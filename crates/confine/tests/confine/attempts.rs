//! One attempt on every call of every system call group, each with a harmless target in case it succeeds.

use std::ffi::CStr;

use libc::{EAFNOSUPPORT, EINVAL, ENOMEM, ENOPROTOOPT, ENOSYS, EPERM, EPROTONOSUPPORT, ESOCKTNOSUPPORT};
use pinfold_confine::{CapabilitySet, SyscallGroup};

use crate::fixture::{Act, Outcome};
use crate::raw_syscalls::{call, forking, iovec_of, open, value};

/// Expected outcome when the group alone is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    Succeeds,
    /// Reaches the kernel's own code, which rejects the harmless target with another error.
    Differs,
    /// Not tried, for this reason.
    NotTried(&'static str),
}

pub(crate) struct Attempt {
    pub(crate) name: &'static str,
    /// None: no group allows it.
    pub(crate) group: Option<SyscallGroup>,
    /// Capabilities granted in both runs, so that only the group differs.
    pub(crate) needs: CapabilitySet,
    pub(crate) refused: Outcome,
    pub(crate) proof: Proof,
    pub(crate) act: Act,
}

const NONE: CapabilitySet = CapabilitySet::empty();
const ADMIN: CapabilitySet = CapabilitySet::SYS_ADMIN;

const HOST_ONLY: Proof = Proof::NotTried("the kernel itself requires a capability of the host first");
const LOADS: Proof = Proof::NotTried("if allowed it could load a module into the host's kernel");
const GONE: Proof = Proof::NotTried("the kernel has removed the call");
const SAME: Proof = Proof::NotTried("the result is the same, and the whole host would write back its files");
const HARD: Proof = Proof::NotTried("no group allows it");

const BAD: usize = usize::MAX;
const AT_CWD: usize = (libc::AT_FDCWD as isize).cast_unsigned();
const NEW_USER: usize = libc::CLONE_NEWUSER as usize;
const CHILD: usize = libc::SIGCHLD as usize;

/// A string as an argument.
fn text(text: &'static CStr) -> usize {
    text.as_ptr().addr()
}

fn nowhere() -> usize {
    text(c"/nowhere")
}

const fn eperm(
    name: &'static str,
    group: SyscallGroup,
    needs: CapabilitySet,
    proof: Proof,
    act: Act,
) -> Attempt {
    refused(name, group, needs, EPERM, proof, act)
}

const fn refused(
    name: &'static str,
    group: SyscallGroup,
    needs: CapabilitySet,
    errno: i32,
    proof: Proof,
    act: Act,
) -> Attempt {
    Attempt { name, group: Some(group), needs, refused: Outcome::Failed(errno), proof, act }
}

const fn unknown(name: &'static str, act: Act) -> Attempt {
    Attempt { name, group: None, needs: NONE, refused: Outcome::Failed(ENOSYS), proof: HARD, act }
}

/// Opens a socket.
macro_rules! socket {
    ($family:expr, $kind:expr, $protocol:expr) => {
        || call(libc::SYS_socket, &[$family as usize, $kind as usize, $protocol as usize])
    };
}

/// Makes a call with numeric arguments.
macro_rules! plain {
    ($number:ident $(, $argument:expr)*) => {
        || call(libc::$number, &[$($argument),*])
    };
}

use Proof::{Differs, Succeeds};
use SyscallGroup::*;

pub(crate) const ATTEMPTS: &[Attempt] = &[
    eperm("unshare(NEWUSER)", Namespaces, NONE, Succeeds, plain!(SYS_unshare, NEW_USER)),
    eperm("unshare(NEWNET)", Namespaces, ADMIN, Succeeds, plain!(SYS_unshare, libc::CLONE_NEWNET as usize)),
    eperm("unshare(NEWTIME)", Namespaces, ADMIN, Differs, plain!(SYS_unshare, 0x80)),
    eperm("clone(NEWUSER)", Namespaces, NONE, Succeeds, || forking(libc::SYS_clone, &[NEW_USER | CHILD])),
    refused("clone3(NEWUSER)", Namespaces, NONE, ENOSYS, Succeeds, clone3_into_a_user_namespace),
    eperm("setns(own network)", Namespaces, ADMIN, Succeeds, || {
        call(libc::SYS_setns, &[open(c"/proc/self/ns/net")?, libc::CLONE_NEWNET as usize])
    }),
    eperm("mount(tmpfs)", Mounts, ADMIN, Succeeds, || {
        call(libc::SYS_mount, &[text(c"none"), text(c"/tmp"), text(c"tmpfs")])
    }),
    eperm("umount2", Mounts, ADMIN, Differs, plain!(SYS_umount2, nowhere())),
    eperm("pivot_root", Mounts, ADMIN, Differs, plain!(SYS_pivot_root, nowhere(), nowhere())),
    eperm("move_mount", Mounts, ADMIN, Differs, plain!(SYS_move_mount, BAD, nowhere(), BAD, nowhere())),
    eperm("open_tree", Mounts, ADMIN, Succeeds, plain!(SYS_open_tree, AT_CWD, text(c"/"))),
    eperm("open_tree_attr", Mounts, ADMIN, Differs, || call(467, &[AT_CWD, nowhere(), 0, 0, 0])),
    eperm("mount_setattr", Mounts, ADMIN, Differs, plain!(SYS_mount_setattr, BAD, nowhere())),
    eperm("fsopen(tmpfs)", Mounts, ADMIN, Succeeds, plain!(SYS_fsopen, text(c"tmpfs"))),
    eperm("fsconfig", Mounts, ADMIN, Differs, plain!(SYS_fsconfig, BAD)),
    eperm("fsmount", Mounts, ADMIN, Differs, plain!(SYS_fsmount, BAD)),
    eperm("fspick", Mounts, ADMIN, Differs, plain!(SYS_fspick, AT_CWD, nowhere())),
    eperm("open_by_handle_at", FileHandles, NONE, HOST_ONLY, plain!(SYS_open_by_handle_at, BAD)),
    eperm("name_to_handle_at", FileHandles, NONE, Differs, plain!(SYS_name_to_handle_at, AT_CWD, nowhere())),
    eperm("io_uring_setup", IoUring, NONE, Succeeds, || {
        let parameters = [0_u64; 16];
        call(libc::SYS_io_uring_setup, &[1, parameters.as_ptr().addr()])
    }),
    eperm("io_uring_enter", IoUring, NONE, Differs, plain!(SYS_io_uring_enter, BAD)),
    eperm("io_uring_register", IoUring, NONE, Differs, plain!(SYS_io_uring_register, BAD)),
    eperm("bpf", Bpf, NONE, Differs, plain!(SYS_bpf, 15, BAD, 16)),
    eperm("perf_event_open", Perf, NONE, Differs, plain!(SYS_perf_event_open)),
    eperm("fanotify_init", FileMonitors, NONE, Differs, plain!(SYS_fanotify_init, 0x200)),
    eperm("fanotify_mark", FileMonitors, NONE, Differs, plain!(SYS_fanotify_mark, BAD)),
    eperm("add_key", Keyrings, NONE, Succeeds, || {
        // KEY_SPEC_PROCESS_KEYRING, which is destroyed with the process.
        let own = (-2_isize).cast_unsigned();
        call(libc::SYS_add_key, &[text(c"user"), text(c"pinfold-canary"), text(c"x"), 1, own])
    }),
    eperm("request_key", Keyrings, NONE, Differs, || {
        call(libc::SYS_request_key, &[text(c"user"), text(c"pinfold-none")])
    }),
    eperm("keyctl", Keyrings, NONE, Succeeds, plain!(SYS_keyctl, 0, (-2_isize).cast_unsigned(), 1)),
    eperm("userfaultfd", Userfaultfd, NONE, Succeeds, plain!(SYS_userfaultfd, 1)),
    eperm("memfd_secret", SecretMemory, NONE, Succeeds, plain!(SYS_memfd_secret)),
    eperm("process_vm_readv", ForeignMemory, NONE, Succeeds, || own_memory(libc::SYS_process_vm_readv)),
    eperm("process_vm_writev", ForeignMemory, NONE, Succeeds, || own_memory(libc::SYS_process_vm_writev)),
    eperm("process_madvise", ForeignMemory, NONE, Differs, plain!(SYS_process_madvise, BAD)),
    eperm("process_mrelease", ForeignMemory, NONE, Differs, plain!(SYS_process_mrelease, BAD)),
    eperm("pidfd_getfd", ForeignMemory, NONE, Succeeds, || {
        let own = value(libc::SYS_pidfd_open, &[own_pid()])?;
        call(libc::SYS_pidfd_getfd, &[own, 0])
    }),
    eperm("kcmp", ForeignMemory, NONE, Succeeds, || call(libc::SYS_kcmp, &[own_pid(), own_pid(), 1])),
    eperm("ptrace", Tracing, NONE, Succeeds, plain!(SYS_ptrace, libc::PTRACE_TRACEME as usize)),
    eperm("get_mempolicy", Numa, NONE, Succeeds, plain!(SYS_get_mempolicy)),
    eperm("set_mempolicy", Numa, NONE, Succeeds, plain!(SYS_set_mempolicy)),
    eperm("set_mempolicy_home_node", Numa, NONE, Differs, plain!(SYS_set_mempolicy_home_node, 1)),
    eperm("mbind", Numa, NONE, Succeeds, plain!(SYS_mbind)),
    eperm("migrate_pages", Numa, NONE, Differs, plain!(SYS_migrate_pages, 0, BAD)),
    eperm("move_pages", Numa, NONE, Succeeds, plain!(SYS_move_pages)),
    eperm("init_module", KernelCode, NONE, HOST_ONLY, plain!(SYS_init_module)),
    eperm("finit_module", KernelCode, NONE, HOST_ONLY, plain!(SYS_finit_module, BAD)),
    eperm("delete_module", KernelCode, NONE, HOST_ONLY, plain!(SYS_delete_module, nowhere())),
    eperm("kexec_load", KernelCode, NONE, HOST_ONLY, plain!(SYS_kexec_load, 0, 0, 0, BAD)),
    eperm("kexec_file_load", KernelCode, NONE, HOST_ONLY, plain!(SYS_kexec_file_load, BAD, BAD)),
    eperm("reboot", Machine, NONE, HOST_ONLY, plain!(SYS_reboot)),
    eperm("swapon", Machine, NONE, HOST_ONLY, plain!(SYS_swapon, nowhere())),
    eperm("swapoff", Machine, NONE, HOST_ONLY, plain!(SYS_swapoff, nowhere())),
    eperm("acct", Machine, NONE, HOST_ONLY, plain!(SYS_acct, nowhere())),
    eperm("quotactl", Machine, NONE, Differs, plain!(SYS_quotactl, BAD)),
    eperm("quotactl_fd", Machine, NONE, Differs, plain!(SYS_quotactl_fd, BAD)),
    eperm("syslog", Machine, NONE, HOST_ONLY, plain!(SYS_syslog, 10)),
    eperm("vhangup", Machine, NONE, HOST_ONLY, plain!(SYS_vhangup)),
    eperm("sethostname", Machine, ADMIN, Succeeds, plain!(SYS_sethostname, text(c"canary"), 6)),
    eperm("setdomainname", Machine, ADMIN, Succeeds, plain!(SYS_setdomainname, text(c"canary"), 6)),
    eperm("lookup_dcookie", Machine, NONE, GONE, plain!(SYS_lookup_dcookie)),
    eperm("nfsservctl", Machine, NONE, GONE, plain!(SYS_nfsservctl)),
    #[cfg(target_arch = "x86_64")]
    eperm("iopl(0)", Machine, NONE, Succeeds, plain!(SYS_iopl)),
    #[cfg(target_arch = "x86_64")]
    eperm("ioperm(off)", Machine, NONE, Succeeds, plain!(SYS_ioperm, 0, 1, 0)),
    #[cfg(target_arch = "x86_64")]
    eperm("modify_ldt(read)", Machine, NONE, Succeeds, plain!(SYS_modify_ldt)),
    eperm("settimeofday", Clock, NONE, Differs, plain!(SYS_settimeofday, BAD)),
    eperm("clock_settime", Clock, NONE, Differs, plain!(SYS_clock_settime, 0, BAD)),
    eperm("adjtimex", Clock, NONE, Differs, plain!(SYS_adjtimex, BAD)),
    eperm("clock_adjtime", Clock, NONE, Differs, plain!(SYS_clock_adjtime, 0, BAD)),
    eperm("personality(READ_IMPLIES_EXEC)", Personality, NONE, Succeeds, plain!(SYS_personality, 0x40_0000)),
    eperm("ioctl(TIOCSTI)", TerminalInput, NONE, Differs, plain!(SYS_ioctl, BAD, 0x5412)),
    eperm(
        "ioctl(TIOCSTI), upper half set",
        TerminalInput,
        NONE,
        Differs,
        plain!(SYS_ioctl, BAD, 0x1_0000_5412),
    ),
    eperm("ioctl(TIOCLINUX)", TerminalInput, NONE, Differs, plain!(SYS_ioctl, BAD, 0x541c)),
    eperm("ioctl(TIOCSETD)", TerminalInput, NONE, Differs, plain!(SYS_ioctl, BAD, 0x5423)),
    family("socket(PACKET)", CapabilitySet::NET_RAW, Succeeds, socket!(libc::AF_PACKET, libc::SOCK_RAW, 0)),
    family("socket(ALG)", NONE, LOADS, socket!(libc::AF_ALG, libc::SOCK_SEQPACKET, 0)),
    family("socket(VSOCK)", NONE, LOADS, socket!(libc::AF_VSOCK, libc::SOCK_STREAM, 0)),
    family("socket(RXRPC)", NONE, LOADS, socket!(libc::AF_RXRPC, libc::SOCK_DGRAM, libc::AF_INET)),
    family("socket(KEY)", NONE, LOADS, socket!(libc::AF_KEY, libc::SOCK_RAW, 2)),
    family("socket(TIPC)", NONE, LOADS, socket!(libc::AF_TIPC, libc::SOCK_RDM, 0)),
    family("socket(CAN)", NONE, LOADS, socket!(libc::AF_CAN, libc::SOCK_RAW, 1)),
    family("socket(BLUETOOTH)", NONE, LOADS, socket!(libc::AF_BLUETOOTH, libc::SOCK_RAW, 1)),
    family("socket(XDP)", NONE, LOADS, socket!(libc::AF_XDP, libc::SOCK_RAW, 0)),
    family("socket(SMC)", NONE, LOADS, socket!(43, libc::SOCK_STREAM, 0)),
    family("socketpair(TIPC)", NONE, LOADS, plain!(SYS_socketpair, libc::AF_TIPC as usize, 4, 0, BAD)),
    netlink("socket(NETLINK_KOBJECT_UEVENT)", Succeeds, socket!(libc::AF_NETLINK, libc::SOCK_RAW, 15)),
    netlink("socket(NETLINK_XFRM)", LOADS, socket!(libc::AF_NETLINK, libc::SOCK_RAW, 6)),
    netlink("socket(NETLINK_AUDIT)", LOADS, socket!(libc::AF_NETLINK, libc::SOCK_RAW, 9)),
    netlink("socket(NETLINK_NETFILTER)", LOADS, socket!(libc::AF_NETLINK, libc::SOCK_RAW, 12)),
    netlink("socket(NETLINK_GENERIC)", LOADS, socket!(libc::AF_NETLINK, libc::SOCK_RAW, 16)),
    netlink("socket(NETLINK_CRYPTO)", LOADS, socket!(libc::AF_NETLINK, libc::SOCK_RAW, 21)),
    inet("socket(INET, IGMP)", EPROTONOSUPPORT, Differs, socket!(libc::AF_INET, libc::SOCK_RAW, 2)),
    inet("socket(INET, MPTCP)", EPROTONOSUPPORT, LOADS, socket!(libc::AF_INET, libc::SOCK_STREAM, 262)),
    inet("socket(INET, SCTP)", EPROTONOSUPPORT, LOADS, socket!(libc::AF_INET, libc::SOCK_STREAM, 132)),
    inet("socket(INET6, L2TP)", EPROTONOSUPPORT, LOADS, socket!(libc::AF_INET6, libc::SOCK_DGRAM, 115)),
    inet("socket(INET, SEQPACKET)", ESOCKTNOSUPPORT, LOADS, socket!(libc::AF_INET, libc::SOCK_SEQPACKET, 0)),
    inet("socket(INET6, DCCP)", ESOCKTNOSUPPORT, LOADS, socket!(libc::AF_INET6, 6, 33)),
    refused("setsockopt(TCP_ULP)", KernelTls, NONE, ENOPROTOOPT, Differs, || {
        let socket = value(libc::SYS_socket, &[libc::AF_INET as usize, libc::SOCK_STREAM as usize])?;
        call(libc::SYS_setsockopt, &[socket, 6, 31, text(c"pinfold-none"), 12])
    }),
    eperm("setsockopt(SO_ATTACH_FILTER)", SocketFilters, NONE, Succeeds, || filter_of_socket(26)),
    eperm("setsockopt(SO_ATTACH_BPF)", SocketFilters, NONE, Differs, || filter_of_socket(50)),
    eperm("setsockopt(SO_ATTACH_REUSEPORT_CBPF)", SocketFilters, NONE, Differs, || filter_of_socket(51)),
    eperm("setsockopt(SO_ATTACH_REUSEPORT_EBPF)", SocketFilters, NONE, Differs, || filter_of_socket(52)),
    refused("setsockopt(UDP_ENCAP)", UdpEncapsulation, NONE, ENOPROTOOPT, Differs, || {
        let socket = value(libc::SYS_socket, &[libc::AF_INET as usize, libc::SOCK_DGRAM as usize])?;
        // One byte is too short, which the kernel's own code would say.
        call(libc::SYS_setsockopt, &[socket, 17, 100, text(c"x"), 1])
    }),
    // Of an impossible size: the kernel's own code answers EINVAL, whether or not it has huge pages.
    huge("mmap(MAP_HUGETLB)", plain!(SYS_mmap, 0, 4096, 1, 0x40022 | 5 << 26, BAD, 0)),
    huge("memfd_create(MFD_HUGETLB)", || call(libc::SYS_memfd_create, &[text(c"x"), 4 | 5 << 26])),
    huge("shmget(SHM_HUGETLB)", plain!(SYS_shmget, 0, 4096, 0o4600 | 5 << 26)),
    eperm("prlimit64(1)", ProcessOne, NONE, Differs, plain!(SYS_prlimit64, 1, 999)),
    eperm("sched_setaffinity(1)", ProcessOne, NONE, Differs, plain!(SYS_sched_setaffinity, 1, 8, BAD)),
    eperm("sched_setscheduler(1)", ProcessOne, NONE, Differs, plain!(SYS_sched_setscheduler, 1, 0, BAD)),
    eperm("sched_setparam(1)", ProcessOne, NONE, Differs, plain!(SYS_sched_setparam, 1, BAD)),
    eperm("sched_setattr(1)", ProcessOne, NONE, Differs, plain!(SYS_sched_setattr, 1, BAD)),
    eperm("setpriority(user)", ProcessOne, NONE, Differs, plain!(SYS_setpriority, 2, 77_777)),
    eperm("ioprio_set(user)", ProcessOne, NONE, Differs, plain!(SYS_ioprio_set, 3, 77_777, BAD)),
    einval("splice", plain!(SYS_splice, BAD, 0, BAD, 0, 1)),
    einval("sendfile", plain!(SYS_sendfile, BAD, BAD, 0, 1)),
    enosys("io_setup", Succeeds, || {
        let mut context = 0_usize;
        call(libc::SYS_io_setup, &[1, (&raw mut context).addr()])
    }),
    enosys("io_destroy", Differs, plain!(SYS_io_destroy, BAD)),
    enosys("io_submit", Differs, plain!(SYS_io_submit, BAD)),
    enosys("io_cancel", Differs, plain!(SYS_io_cancel, BAD)),
    enosys("io_getevents", Differs, plain!(SYS_io_getevents, BAD)),
    #[cfg(target_arch = "x86_64")]
    enosys("io_pgetevents", Differs, || call(333, &[BAD])),
    returns_zero("sync", SAME, plain!(SYS_sync)),
    returns_zero("syncfs", Differs, plain!(SYS_syncfs, BAD)),
    #[cfg(target_arch = "x86_64")]
    Attempt {
        name: "int 0x80 (i386 getpid)",
        group: Some(ForeignCalls),
        needs: NONE,
        refused: Outcome::Killed(libc::SIGSYS),
        proof: Succeeds,
        act: crate::raw_syscalls::i386_getpid,
    },
    #[cfg(target_arch = "x86_64")]
    unknown("x32 getpid", || call(0x4000_0000 | libc::SYS_getpid, &[])),
    #[cfg(target_arch = "x86_64")]
    unknown("x32 ptrace by its own number", || call(0x4000_0000 | 521, &[])),
    unknown("call 999", || call(999, &[])),
    unknown("call -1", || call(-1, &[])),
];

const fn huge(name: &'static str, act: Act) -> Attempt {
    refused(name, HugePages, NONE, ENOMEM, Differs, act)
}

const fn einval(name: &'static str, act: Act) -> Attempt {
    refused(name, PipeLocks, NONE, EINVAL, Differs, act)
}

const fn enosys(name: &'static str, proof: Proof, act: Act) -> Attempt {
    refused(name, AsyncIo, NONE, ENOSYS, proof, act)
}

const fn returns_zero(name: &'static str, proof: Proof, act: Act) -> Attempt {
    Attempt { name, group: Some(WriteBack), needs: NONE, refused: Outcome::Done, proof, act }
}

const fn family(name: &'static str, needs: CapabilitySet, proof: Proof, act: Act) -> Attempt {
    refused(name, SocketFamilies, needs, EAFNOSUPPORT, proof, act)
}

const fn netlink(name: &'static str, proof: Proof, act: Act) -> Attempt {
    refused(name, NetlinkProtocols, NONE, EPROTONOSUPPORT, proof, act)
}

const fn inet(name: &'static str, errno: i32, proof: Proof, act: Act) -> Attempt {
    refused(name, InetProtocols, NONE, errno, proof, act)
}

/// A filter that takes every packet whole, on a socket of its own.
fn filter_of_socket(option: usize) -> Result<(), i32> {
    let socket = value(libc::SYS_socket, &[libc::AF_INET as usize, libc::SOCK_DGRAM as usize])?;
    let filter = [libc::sock_filter { code: 6, jt: 0, jf: 0, k: u32::MAX }];
    let program = libc::sock_fprog { len: 1, filter: filter.as_ptr().cast_mut() };
    call(
        libc::SYS_setsockopt,
        &[socket, 1, option, (&raw const program).addr(), size_of::<libc::sock_fprog>()],
    )
}

fn clone3_into_a_user_namespace() -> Result<(), i32> {
    // `struct clone_args`: flags first, exit signal fifth.
    let arguments = [NEW_USER as u64, 0, 0, 0, CHILD as u64, 0, 0, 0];
    forking(libc::SYS_clone3, &[arguments.as_ptr().addr(), size_of_val(&arguments)])
}

fn own_memory(number: libc::c_long) -> Result<(), i32> {
    let (mut here, mut there) = (0_u64, 0_u64);
    let (local, remote) = (iovec_of(&mut here), iovec_of(&mut there));
    call(number, &[own_pid(), (&raw const local).addr(), 1, (&raw const remote).addr(), 1, 0])
}

fn own_pid() -> usize {
    std::process::id() as usize
}
