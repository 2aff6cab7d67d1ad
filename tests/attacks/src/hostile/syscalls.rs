//! Rarely used system calls: namespaces, mounts, old and new ways around a filter, unusual sockets.

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use libc::{EAFNOSUPPORT, ENOMEM, ENOPROTOOPT, ENOSYS, EPERM, EPROTONOSUPPORT};

use crate::kernel::{Ended, call, i386_getpid, in_child, owned, text};
use crate::verdict::{Attempt, Step, Verdict, must_be_refused, must_fail, through_if};

const NEW_USER: usize = libc::CLONE_NEWUSER as usize;
const CHILD: usize = libc::SIGCHLD as usize;
const AT_CWD: usize = (libc::AT_FDCWD as isize).cast_unsigned();
const BAD: usize = usize::MAX;

pub(crate) const ATTEMPTS: &[(&str, Attempt)] = &[
    ("nested-user-namespace-by-unshare", |_| must_fail(call(libc::SYS_unshare, &[NEW_USER]))),
    ("nested-user-namespace-by-clone", |_| must_fail(begin(libc::SYS_clone, &[NEW_USER | CHILD]))),
    ("nested-user-namespace-by-clone3", |_| {
        let arguments = [NEW_USER as u64, 0, 0, 0, CHILD as u64, 0, 0, 0];
        must_fail(begin(libc::SYS_clone3, &[arguments.as_ptr().addr(), size_of_val(&arguments)]))
    }),
    ("nested-root-that-mounts", |_| {
        in_nested_namespaces(libc::CLONE_NEWNS, || mount("none", "/tmp", "tmpfs", 0))
    }),
    ("nested-root-that-sniffs-packets", |_| {
        in_nested_namespaces(libc::CLONE_NEWNET, || {
            call(libc::SYS_socket, &[libc::AF_PACKET as usize, libc::SOCK_RAW as usize]).map(|_| ())
        })
    }),
    ("enter-namespaces-of-process-1", |_| {
        let namespace = call(libc::SYS_openat, &[AT_CWD, text("/proc/1/ns/uts").as_ptr().addr()]);
        let namespace = match namespace {
            Ok(namespace) => namespace,
            Err(errno) => return must_fail::<()>(Err(errno)),
        };
        must_fail(call(libc::SYS_setns, &[namespace, 0]))
    }),
    ("enter-its-own-namespace-again", |_| {
        let path = text("/proc/self/ns/uts");
        let namespace = call(libc::SYS_openat, &[AT_CWD, path.as_ptr().addr()]).step("open its namespace")?;
        must_fail(call(libc::SYS_setns, &[namespace, 0]))
    }),
    ("mount-a-filesystem", |_| must_fail(mount("none", "/tmp", "tmpfs", 0))),
    ("mount-by-the-new-calls", |_| {
        must_be_refused(call(libc::SYS_fsopen, &[text("tmpfs").as_ptr().addr()]), &[EPERM])
    }),
    ("mount-the-control-groups", |_| {
        fs::create_dir_all("/tmp/groups").step("make a directory")?;
        let mounted = mount("none", "/tmp/groups", "cgroup2", 0);
        must_fail(mounted.and_then(|()| open_to_read("/tmp/groups/cgroup.procs")))
    }),
    ("mount-a-release-agent", |_| {
        fs::create_dir_all("/tmp/v1").step("make a directory")?;
        // Only mounts the hierarchy in which a release agent could be set.
        let path = (text("none"), text("/tmp/v1"), text("cgroup"), text("memory"));
        let arguments = [
            path.0.as_ptr().addr(),
            path.1.as_ptr().addr(),
            path.2.as_ptr().addr(),
            0,
            path.3.as_ptr().addr(),
        ];
        must_fail(call(libc::SYS_mount, &arguments).and_then(|_| open_to_read("/tmp/v1/tasks")))
    }),
    ("mount-binfmt-misc", |_| {
        fs::create_dir_all("/tmp/binfmt").step("make a directory")?;
        let mounted = mount("none", "/tmp/binfmt", "binfmt_misc", 0);
        must_fail(mounted.and_then(|()| open_to_read("/tmp/binfmt/status")))
    }),
    ("remount-the-hosts-programs-writable", |_| {
        let flags = libc::MS_REMOUNT | libc::MS_BIND | libc::MS_NOSUID | libc::MS_NODEV;
        let remounted = mount("none", "/usr", "none", flags);
        // The flags of the mount itself: its filesystem has no writable layer.
        let mounts = fs::read_to_string("/proc/self/mountinfo").step("list mounts")?;
        let read_only = mounts.lines().any(|line| line.contains(" /usr ro,"));
        match remounted {
            Ok(()) => through_if(!read_only, "its flags were changed"),
            Err(errno) => must_fail::<()>(Err(errno)),
        }
    }),
    ("remount-kernel-settings-writable", |_| {
        let flags = libc::MS_REMOUNT | libc::MS_BIND | libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
        must_fail(mount("none", "/proc/sys", "none", flags).and_then(|()| write_back(OWN_SETTING)))
    }),
    ("unmount-what-hides-a-path", |_| {
        must_fail(call(libc::SYS_umount2, &[text("/proc/keys").as_ptr().addr(), libc::MNT_DETACH as usize]))
    }),
    ("pivot-to-another-root", |_| {
        let here = text(".");
        std::env::set_current_dir("/dev/shm").step("enter a mount")?;
        must_fail(call(libc::SYS_pivot_root, &[here.as_ptr().addr(), here.as_ptr().addr()]))
    }),
    ("open-files-by-handle", |_| {
        // A length of 128 bytes, room for them, and where the mount's number goes.
        let (mut handle, mut mount) = ([0_u32; 34], 0_i32);
        handle[0] = 128;
        let root = text("/");
        let arguments =
            [AT_CWD, root.as_ptr().addr(), handle.as_mut_ptr().addr(), (&raw mut mount).addr(), 0];
        must_be_refused(call(libc::SYS_name_to_handle_at, &arguments), &[EPERM])
    }),
    ("i386-calls-past-the-filter", |_| match in_child(|| i32::from(i386_getpid() <= 0)).step("fork")? {
        Ended::Code(0) => Ok(Verdict::Through("an i386 call was answered".into())),
        Ended::Code(code) => Ok(Verdict::Held(format!("refused, {code}"))),
        Ended::Signal(signal) => Ok(Verdict::Held(format!("killed by signal {signal}"))),
    }),
    ("x32-calls-past-the-filter", |_| {
        must_be_refused(call(0x4000_0000 | libc::SYS_getpid, &[]), &[ENOSYS, EPERM])
    }),
    ("calls-of-tomorrow", |_| must_be_refused(call(600, &[]), &[ENOSYS])),
    ("io-uring-past-the-filter", |_| {
        let parameters = [0_u64; 16];
        must_fail(call(libc::SYS_io_uring_setup, &[1, parameters.as_ptr().addr()]))
    }),
    ("load-a-bpf-program", |_| must_be_refused(call(libc::SYS_bpf, &[15, BAD, 16]), &[EPERM])),
    ("count-performance-events", |_| must_be_refused(call(libc::SYS_perf_event_open, &[]), &[EPERM])),
    ("hold-the-kernel-by-userfaultfd", |_| must_fail(call(libc::SYS_userfaultfd, &[1]))),
    ("secret-memory-outside-the-limit", |_| must_fail(call(libc::SYS_memfd_secret, &[]))),
    ("watch-others-files-by-fanotify", |_| {
        must_be_refused(call(libc::SYS_fanotify_init, &[0x200]), &[EPERM])
    }),
    ("leave-a-key-in-a-keyring", |_| {
        let own = (-2_isize).cast_unsigned();
        let words = (text("user"), text("pinfold-canary"));
        let arguments = [words.0.as_ptr().addr(), words.1.as_ptr().addr(), words.0.as_ptr().addr(), 1, own];
        must_fail(call(libc::SYS_add_key, &arguments))
    }),
    ("read-the-kernel-log", |_| must_fail(call(libc::SYS_syslog, &[10]))),
    ("rename-the-host", |_| must_fail(call(libc::SYS_sethostname, &[text("canary").as_ptr().addr(), 6]))),
    ("make-memory-executable-by-personality", |_| must_fail(call(libc::SYS_personality, &[0x40_0000]))),
    ("type-into-a-terminal", |_| terminal_ioctl(0x5412)),
    ("paste-into-a-console", |_| terminal_ioctl(0x541c)),
    ("change-a-terminals-driver", |_| terminal_ioctl(0x5423)),
    ("socket-packet", |_| rare_family(libc::AF_PACKET, libc::SOCK_RAW)),
    ("socket-alg", |_| rare_family(libc::AF_ALG, libc::SOCK_SEQPACKET)),
    ("socket-vsock", |_| rare_family(libc::AF_VSOCK, libc::SOCK_STREAM)),
    ("socket-rxrpc", |_| rare_family(libc::AF_RXRPC, libc::SOCK_DGRAM)),
    ("netlink-uevents", |_| netlink(15)),
    ("netlink-xfrm", |_| netlink(6)),
    ("netlink-netfilter", |_| netlink(12)),
    ("kernel-tls", |_| {
        let socket = call(libc::SYS_socket, &[libc::AF_INET as usize, libc::SOCK_STREAM as usize]);
        let socket = socket.step("open a socket")?;
        let name = text("pinfold-none");
        must_be_refused(
            call(libc::SYS_setsockopt, &[socket, 6, 31, name.as_ptr().addr(), 12]),
            &[ENOPROTOOPT],
        )
    }),
    ("filter-of-a-socket", |_| socket_filter(libc::SO_ATTACH_FILTER)),
    ("filter-of-a-port", |_| socket_filter(libc::SO_ATTACH_REUSEPORT_CBPF)),
    ("bpf-program-of-a-socket", |_| socket_filter(libc::SO_ATTACH_BPF)),
    ("bpf-program-of-a-port", |_| socket_filter(libc::SO_ATTACH_REUSEPORT_EBPF)),
    ("encapsulate-udp", |_| {
        // One byte is too short, which the kernel's own code would say.
        set_option(17, 100, &1_u8, &[ENOPROTOOPT])
    }),
    // Of an impossible size, which the kernel's own code refuses otherwise, whether or not it has huge pages.
    ("huge-pages-by-mmap", |_| {
        let flags = (libc::MAP_HUGETLB | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize | NO_SIZE;
        must_be_refused(call(libc::SYS_mmap, &[0, 4_096, 1, flags, BAD, 0]), &[ENOMEM])
    }),
    ("huge-pages-by-memfd", |_| {
        let name = text("huge");
        let flags = libc::MFD_HUGETLB as usize;
        must_be_refused(call(libc::SYS_memfd_create, &[name.as_ptr().addr(), flags]), &[ENOMEM])
    }),
    ("huge-pages-by-a-segment", |_| {
        let flags = libc::SHM_HUGETLB as usize | 0o600 | NO_SIZE;
        must_be_refused(call(libc::SYS_shmget, &[0, 4_096, flags]), &[ENOMEM])
    }),
];

/// A size of 32 bytes, as flags of huge pages encode it.
const NO_SIZE: usize = 5 << 26;

/// A filter that takes every packet whole. For options that want a descriptor of a program it is none.
fn socket_filter(option: libc::c_int) -> Result<Verdict, String> {
    let filter = [libc::sock_filter { code: 6, jt: 0, jf: 0, k: u32::MAX }];
    let program = libc::sock_fprog { len: 1, filter: filter.as_ptr().cast_mut() };
    set_option(libc::SOL_SOCKET, option, &program, &[EPERM])
}

fn set_option<T>(
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
    refusals: &[i32],
) -> Result<Verdict, String> {
    let socket = call(libc::SYS_socket, &[libc::AF_INET as usize, libc::SOCK_DGRAM as usize]);
    let socket = owned(socket.step("open a socket")?);
    let number = usize::try_from(socket.as_raw_fd()).unwrap_or(0);
    let value_at = std::ptr::from_ref(value).addr();
    let arguments = [number, level as usize, option as usize, value_at, size_of::<T>()];
    must_be_refused(call(libc::SYS_setsockopt, &arguments), refusals)
}

/// Belongs to the sandbox's ipc namespace, and is harmless.
const OWN_SETTING: &str = "/proc/sys/kernel/msgmax";

/// A call that may create a child, which exits at once.
fn begin(number: libc::c_long, arguments: &[usize]) -> Result<(), i32> {
    match call(number, arguments)? {
        0 => crate::kernel::exit_now(0),
        child => crate::kernel::wait_for(child).map(|_| ()),
    }
}

fn mount(from: &str, at: &str, kind: &str, flags: u64) -> Result<(), i32> {
    let (from, at, kind) = (text(from), text(at), text(kind));
    let flags = usize::try_from(flags).unwrap_or(0);
    call(libc::SYS_mount, &[from.as_ptr().addr(), at.as_ptr().addr(), kind.as_ptr().addr(), flags])
        .map(|_| ())
}

fn open_to_read(path: &str) -> Result<(), i32> {
    fs::read(path).map(|_| ()).map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))
}

fn write_back(path: &str) -> Result<(), i32> {
    let again = fs::read(path).and_then(|text| fs::write(path, text));
    again.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))
}

/// Root in a nested user namespace may do what its parent may not.
fn in_nested_namespaces(more: libc::c_int, act: impl FnOnce() -> Result<(), i32>) -> Result<Verdict, String> {
    let ended = in_child(|| {
        let nested = NEW_USER | usize::try_from(more).unwrap_or(0);
        call(libc::SYS_unshare, &[nested]).and_then(|_| act()).err().unwrap_or(0)
    });
    match ended.step("fork")? {
        Ended::Code(0) => Ok(Verdict::Through("it did as nested root".into())),
        Ended::Code(errno) => must_fail::<()>(Err(errno)),
        Ended::Signal(signal) => Ok(Verdict::Held(format!("killed by signal {signal}"))),
    }
}

/// Injects input into a terminal of its own, as it would into another user's.
fn terminal_ioctl(request: usize) -> Result<Verdict, String> {
    const UNLOCK: usize = 0x4004_5431;
    const NUMBER: usize = 0x8004_5430;
    let main = fs::OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOCTTY).open("/dev/ptmx");
    let main = main.step("open a terminal")?;
    let main = usize::try_from(main.as_raw_fd()).unwrap_or(0);
    let (off, mut number, letter) = (0_u32, 0_u32, [0_u8; 8]);
    call(libc::SYS_ioctl, &[main, UNLOCK, (&raw const off).addr()]).step("unlock it")?;
    call(libc::SYS_ioctl, &[main, NUMBER, (&raw mut number).addr()]).step("ask its number")?;
    let ended = in_child(|| {
        let _ = call(libc::SYS_setsid, &[]);
        // A session leader's first terminal becomes its controlling terminal.
        let path = text(&format!("/dev/pts/{number}"));
        let opened = call(libc::SYS_openat, &[AT_CWD, path.as_ptr().addr(), libc::O_RDWR as usize]);
        opened
            .and_then(|own| call(libc::SYS_ioctl, &[own, request, letter.as_ptr().addr()]))
            .err()
            .unwrap_or(0)
    });
    match ended.step("fork")? {
        Ended::Code(0) => Ok(Verdict::Through("it succeeded".into())),
        Ended::Code(errno) => must_be_refused::<()>(Err(errno), &[EPERM]),
        Ended::Signal(signal) => Ok(Verdict::Through(format!("ended by signal {signal}"))),
    }
}

fn rare_family(family: libc::c_int, kind: libc::c_int) -> Result<Verdict, String> {
    let made = call(libc::SYS_socket, &[family.cast_unsigned() as usize, kind.cast_unsigned() as usize]);
    must_be_refused(made.map(owned), &[EAFNOSUPPORT])
}

fn netlink(protocol: usize) -> Result<Verdict, String> {
    let made = call(libc::SYS_socket, &[libc::AF_NETLINK as usize, libc::SOCK_RAW as usize, protocol]);
    must_be_refused(made.map(owned), &[EPROTONOSUPPORT])
}
