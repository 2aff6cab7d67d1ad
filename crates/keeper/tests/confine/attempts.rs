//! One attempt on every call behind every door, each with a target that does no harm if it succeeds.

use std::ffi::CStr;

use libc::{EAFNOSUPPORT, EINVAL, ENOPROTOOPT, ENOSYS, EPERM, EPROTONOSUPPORT, ESOCKTNOSUPPORT};
use pinfold_keeper::confine::{CapabilitySet, Door};

use crate::kernel::{call, forking, open, piece, value};
use crate::stage::{Act, Outcome};

/// What the attempt comes to when its door, and nothing else, is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    Succeeds,
    /// It reaches the kernel's own code, which finds fault with its harmless target.
    Differs,
    /// It is not tried, and this is why.
    Nowhere(&'static str),
}

pub(crate) struct Attempt {
    pub(crate) name: &'static str,
    /// What no door can open has none.
    pub(crate) door: Option<Door>,
    /// Capabilities given in both runs, so that the door alone makes the difference.
    pub(crate) needs: CapabilitySet,
    pub(crate) refused: Outcome,
    pub(crate) proof: Proof,
    pub(crate) act: Act,
}

const NONE: CapabilitySet = CapabilitySet::empty();
const ADMIN: CapabilitySet = CapabilitySet::SYS_ADMIN;

const HOST_ONLY: Proof = Proof::Nowhere("the kernel itself wants a capability of the host first");
const LOADS: Proof = Proof::Nowhere("with the door open it could load a module into the host's kernel");
const GONE: Proof = Proof::Nowhere("the kernel has removed the call");
const SAME: Proof = Proof::Nowhere("it answers the same, and the whole host would write back its files");
const HARD: Proof = Proof::Nowhere("no door opens it");

const BAD: usize = usize::MAX;
const AT_CWD: usize = (libc::AT_FDCWD as isize).cast_unsigned();
const NEW_USER: usize = libc::CLONE_NEWUSER as usize;
const CHILD: usize = libc::SIGCHLD as usize;

/// Text as a call's argument.
fn text(text: &'static CStr) -> usize {
    text.as_ptr().addr()
}

fn nowhere() -> usize {
    text(c"/nowhere")
}

const fn shut(name: &'static str, door: Door, needs: CapabilitySet, proof: Proof, act: Act) -> Attempt {
    refused(name, door, needs, EPERM, proof, act)
}

const fn refused(
    name: &'static str,
    door: Door,
    needs: CapabilitySet,
    errno: i32,
    proof: Proof,
    act: Act,
) -> Attempt {
    Attempt { name, door: Some(door), needs, refused: Outcome::Failed(errno), proof, act }
}

const fn unknown(name: &'static str, act: Act) -> Attempt {
    Attempt { name, door: None, needs: NONE, refused: Outcome::Failed(ENOSYS), proof: HARD, act }
}

/// A socket that is closed with its process.
macro_rules! socket {
    ($family:expr, $kind:expr, $protocol:expr) => {
        || call(libc::SYS_socket, &[$family as usize, $kind as usize, $protocol as usize])
    };
}

/// A call with numbers for arguments.
macro_rules! plain {
    ($number:ident $(, $argument:expr)*) => {
        || call(libc::$number, &[$($argument),*])
    };
}

use Door::*;
use Proof::{Differs, Succeeds};

pub(crate) const ATTEMPTS: &[Attempt] = &[
    shut("unshare(NEWUSER)", Namespaces, NONE, Succeeds, plain!(SYS_unshare, NEW_USER)),
    shut("unshare(NEWNET)", Namespaces, ADMIN, Succeeds, plain!(SYS_unshare, libc::CLONE_NEWNET as usize)),
    shut("unshare(NEWTIME)", Namespaces, ADMIN, Differs, plain!(SYS_unshare, 0x80)),
    shut("clone(NEWUSER)", Namespaces, NONE, Succeeds, || forking(libc::SYS_clone, &[NEW_USER | CHILD])),
    refused("clone3(NEWUSER)", Namespaces, NONE, ENOSYS, Succeeds, clone3_into_a_user_namespace),
    shut("setns(own network)", Namespaces, ADMIN, Succeeds, || {
        call(libc::SYS_setns, &[open(c"/proc/self/ns/net")?, libc::CLONE_NEWNET as usize])
    }),
    shut("mount(tmpfs)", Mounts, ADMIN, Succeeds, || {
        call(libc::SYS_mount, &[text(c"none"), text(c"/tmp"), text(c"tmpfs")])
    }),
    shut("umount2", Mounts, ADMIN, Differs, plain!(SYS_umount2, nowhere())),
    shut("pivot_root", Mounts, ADMIN, Differs, plain!(SYS_pivot_root, nowhere(), nowhere())),
    shut("move_mount", Mounts, ADMIN, Differs, plain!(SYS_move_mount, BAD, nowhere(), BAD, nowhere())),
    shut("open_tree", Mounts, ADMIN, Succeeds, plain!(SYS_open_tree, AT_CWD, text(c"/"))),
    shut("open_tree_attr", Mounts, ADMIN, Differs, || call(467, &[AT_CWD, nowhere(), 0, 0, 0])),
    shut("mount_setattr", Mounts, ADMIN, Differs, plain!(SYS_mount_setattr, BAD, nowhere())),
    shut("fsopen(tmpfs)", Mounts, ADMIN, Succeeds, plain!(SYS_fsopen, text(c"tmpfs"))),
    shut("fsconfig", Mounts, ADMIN, Differs, plain!(SYS_fsconfig, BAD)),
    shut("fsmount", Mounts, ADMIN, Differs, plain!(SYS_fsmount, BAD)),
    shut("fspick", Mounts, ADMIN, Differs, plain!(SYS_fspick, AT_CWD, nowhere())),
    shut("open_by_handle_at", FileHandles, NONE, HOST_ONLY, plain!(SYS_open_by_handle_at, BAD)),
    shut("name_to_handle_at", FileHandles, NONE, Differs, plain!(SYS_name_to_handle_at, AT_CWD, nowhere())),
    shut("io_uring_setup", IoUring, NONE, Succeeds, || {
        let parameters = [0_u64; 16];
        call(libc::SYS_io_uring_setup, &[1, parameters.as_ptr().addr()])
    }),
    shut("io_uring_enter", IoUring, NONE, Differs, plain!(SYS_io_uring_enter, BAD)),
    shut("io_uring_register", IoUring, NONE, Differs, plain!(SYS_io_uring_register, BAD)),
    shut("bpf", Bpf, NONE, Differs, plain!(SYS_bpf, 15, BAD, 16)),
    shut("perf_event_open", Perf, NONE, Differs, plain!(SYS_perf_event_open)),
    shut("fanotify_init", FileMonitors, NONE, Differs, plain!(SYS_fanotify_init, 0x200)),
    shut("fanotify_mark", FileMonitors, NONE, Differs, plain!(SYS_fanotify_mark, BAD)),
    shut("add_key", Keyrings, NONE, Succeeds, || {
        // KEY_SPEC_PROCESS_KEYRING, which ends with the process.
        let own = (-2_isize).cast_unsigned();
        call(libc::SYS_add_key, &[text(c"user"), text(c"pinfold-canary"), text(c"x"), 1, own])
    }),
    shut("request_key", Keyrings, NONE, Differs, || {
        call(libc::SYS_request_key, &[text(c"user"), text(c"pinfold-none")])
    }),
    shut("keyctl", Keyrings, NONE, Succeeds, plain!(SYS_keyctl, 0, (-2_isize).cast_unsigned(), 1)),
    shut("userfaultfd", Userfaultfd, NONE, Succeeds, plain!(SYS_userfaultfd, 1)),
    shut("memfd_secret", SecretMemory, NONE, Succeeds, plain!(SYS_memfd_secret)),
    shut("process_vm_readv", ForeignMemory, NONE, Succeeds, || own_memory(libc::SYS_process_vm_readv)),
    shut("process_vm_writev", ForeignMemory, NONE, Succeeds, || own_memory(libc::SYS_process_vm_writev)),
    shut("process_madvise", ForeignMemory, NONE, Differs, plain!(SYS_process_madvise, BAD)),
    shut("process_mrelease", ForeignMemory, NONE, Differs, plain!(SYS_process_mrelease, BAD)),
    shut("pidfd_getfd", ForeignMemory, NONE, Succeeds, || {
        let own = value(libc::SYS_pidfd_open, &[own_pid()])?;
        call(libc::SYS_pidfd_getfd, &[own, 0])
    }),
    shut("kcmp", ForeignMemory, NONE, Succeeds, || call(libc::SYS_kcmp, &[own_pid(), own_pid(), 1])),
    shut("ptrace", Tracing, NONE, Succeeds, plain!(SYS_ptrace, libc::PTRACE_TRACEME as usize)),
    shut("get_mempolicy", Numa, NONE, Succeeds, plain!(SYS_get_mempolicy)),
    shut("set_mempolicy", Numa, NONE, Succeeds, plain!(SYS_set_mempolicy)),
    shut("set_mempolicy_home_node", Numa, NONE, Differs, plain!(SYS_set_mempolicy_home_node, 1)),
    shut("mbind", Numa, NONE, Succeeds, plain!(SYS_mbind)),
    shut("migrate_pages", Numa, NONE, Differs, plain!(SYS_migrate_pages, 0, BAD)),
    shut("move_pages", Numa, NONE, Succeeds, plain!(SYS_move_pages)),
    shut("init_module", KernelCode, NONE, HOST_ONLY, plain!(SYS_init_module)),
    shut("finit_module", KernelCode, NONE, HOST_ONLY, plain!(SYS_finit_module, BAD)),
    shut("delete_module", KernelCode, NONE, HOST_ONLY, plain!(SYS_delete_module, nowhere())),
    shut("kexec_load", KernelCode, NONE, HOST_ONLY, plain!(SYS_kexec_load, 0, 0, 0, BAD)),
    shut("kexec_file_load", KernelCode, NONE, HOST_ONLY, plain!(SYS_kexec_file_load, BAD, BAD)),
    shut("reboot", Machine, NONE, HOST_ONLY, plain!(SYS_reboot)),
    shut("swapon", Machine, NONE, HOST_ONLY, plain!(SYS_swapon, nowhere())),
    shut("swapoff", Machine, NONE, HOST_ONLY, plain!(SYS_swapoff, nowhere())),
    shut("acct", Machine, NONE, HOST_ONLY, plain!(SYS_acct, nowhere())),
    shut("quotactl", Machine, NONE, Differs, plain!(SYS_quotactl, BAD)),
    shut("quotactl_fd", Machine, NONE, Differs, plain!(SYS_quotactl_fd, BAD)),
    shut("syslog", Machine, NONE, HOST_ONLY, plain!(SYS_syslog, 10)),
    shut("vhangup", Machine, NONE, HOST_ONLY, plain!(SYS_vhangup)),
    shut("sethostname", Machine, ADMIN, Succeeds, plain!(SYS_sethostname, text(c"canary"), 6)),
    shut("setdomainname", Machine, ADMIN, Succeeds, plain!(SYS_setdomainname, text(c"canary"), 6)),
    shut("lookup_dcookie", Machine, NONE, GONE, plain!(SYS_lookup_dcookie)),
    shut("nfsservctl", Machine, NONE, GONE, plain!(SYS_nfsservctl)),
    #[cfg(target_arch = "x86_64")]
    shut("iopl(0)", Machine, NONE, Succeeds, plain!(SYS_iopl)),
    #[cfg(target_arch = "x86_64")]
    shut("ioperm(off)", Machine, NONE, Succeeds, plain!(SYS_ioperm, 0, 1, 0)),
    #[cfg(target_arch = "x86_64")]
    shut("modify_ldt(read)", Machine, NONE, Succeeds, plain!(SYS_modify_ldt)),
    shut("settimeofday", Clock, NONE, Differs, plain!(SYS_settimeofday, BAD)),
    shut("clock_settime", Clock, NONE, Differs, plain!(SYS_clock_settime, 0, BAD)),
    shut("adjtimex", Clock, NONE, Differs, plain!(SYS_adjtimex, BAD)),
    shut("clock_adjtime", Clock, NONE, Differs, plain!(SYS_clock_adjtime, 0, BAD)),
    shut("personality(READ_IMPLIES_EXEC)", Personality, NONE, Succeeds, plain!(SYS_personality, 0x40_0000)),
    shut("ioctl(TIOCSTI)", TerminalInput, NONE, Differs, plain!(SYS_ioctl, BAD, 0x5412)),
    shut(
        "ioctl(TIOCSTI), upper half set",
        TerminalInput,
        NONE,
        Differs,
        plain!(SYS_ioctl, BAD, 0x1_0000_5412),
    ),
    shut("ioctl(TIOCLINUX)", TerminalInput, NONE, Differs, plain!(SYS_ioctl, BAD, 0x541c)),
    shut("ioctl(TIOCSETD)", TerminalInput, NONE, Differs, plain!(SYS_ioctl, BAD, 0x5423)),
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
    shut("prlimit64(1)", ProcessOne, NONE, Differs, plain!(SYS_prlimit64, 1, 999)),
    shut("sched_setaffinity(1)", ProcessOne, NONE, Differs, plain!(SYS_sched_setaffinity, 1, 8, BAD)),
    shut("sched_setscheduler(1)", ProcessOne, NONE, Differs, plain!(SYS_sched_setscheduler, 1, 0, BAD)),
    shut("sched_setparam(1)", ProcessOne, NONE, Differs, plain!(SYS_sched_setparam, 1, BAD)),
    shut("sched_setattr(1)", ProcessOne, NONE, Differs, plain!(SYS_sched_setattr, 1, BAD)),
    shut("setpriority(user)", ProcessOne, NONE, Differs, plain!(SYS_setpriority, 2, 77_777)),
    shut("ioprio_set(user)", ProcessOne, NONE, Differs, plain!(SYS_ioprio_set, 3, 77_777, BAD)),
    unfit("splice", plain!(SYS_splice, BAD, 0, BAD, 0, 1)),
    unfit("sendfile", plain!(SYS_sendfile, BAD, BAD, 0, 1)),
    missing("io_setup", Succeeds, || {
        let mut context = 0_usize;
        call(libc::SYS_io_setup, &[1, (&raw mut context).addr()])
    }),
    missing("io_destroy", Differs, plain!(SYS_io_destroy, BAD)),
    missing("io_submit", Differs, plain!(SYS_io_submit, BAD)),
    missing("io_cancel", Differs, plain!(SYS_io_cancel, BAD)),
    missing("io_getevents", Differs, plain!(SYS_io_getevents, BAD)),
    #[cfg(target_arch = "x86_64")]
    missing("io_pgetevents", Differs, || call(333, &[BAD])),
    feigned("sync", SAME, plain!(SYS_sync)),
    feigned("syncfs", Differs, plain!(SYS_syncfs, BAD)),
    #[cfg(target_arch = "x86_64")]
    Attempt {
        name: "int 0x80 (i386 getpid)",
        door: Some(ForeignCalls),
        needs: NONE,
        refused: Outcome::Killed(libc::SIGSYS),
        proof: Succeeds,
        act: crate::kernel::i386_getpid,
    },
    #[cfg(target_arch = "x86_64")]
    unknown("x32 getpid", || call(0x4000_0000 | libc::SYS_getpid, &[])),
    #[cfg(target_arch = "x86_64")]
    unknown("x32 ptrace by its own number", || call(0x4000_0000 | 521, &[])),
    unknown("call 999", || call(999, &[])),
    unknown("call -1", || call(-1, &[])),
];

const fn unfit(name: &'static str, act: Act) -> Attempt {
    refused(name, PipeLocks, NONE, EINVAL, Differs, act)
}

const fn missing(name: &'static str, proof: Proof, act: Act) -> Attempt {
    refused(name, AsyncIo, NONE, ENOSYS, proof, act)
}

const fn feigned(name: &'static str, proof: Proof, act: Act) -> Attempt {
    Attempt { name, door: Some(WriteBack), needs: NONE, refused: Outcome::Done, proof, act }
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

fn clone3_into_a_user_namespace() -> Result<(), i32> {
    // `struct clone_args`: flags first, the child's last signal fifth.
    let arguments = [NEW_USER as u64, 0, 0, 0, CHILD as u64, 0, 0, 0];
    forking(libc::SYS_clone3, &[arguments.as_ptr().addr(), size_of_val(&arguments)])
}

fn own_memory(number: libc::c_long) -> Result<(), i32> {
    let (mut here, mut there) = (0_u64, 0_u64);
    let (local, remote) = (piece(&mut here), piece(&mut there));
    call(number, &[own_pid(), (&raw const local).addr(), 1, (&raw const remote).addr(), 1, 0])
}

fn own_pid() -> usize {
    std::process::id() as usize
}
