//! System calls that no safe crate offers. The only unsafe code of this crate.

#![allow(unsafe_code, reason = "the kernel's own interface")]

use std::ffi::{CString, c_char};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::used::Counted;
use crate::wire::IdMap;

/// The child's side of a clone, or the parent's with the child's process id and handle.
pub(crate) enum Cloned {
    Child,
    Parent { pid: i32, pidfd: OwnedFd },
}

/// What all that was waited for has used, with those that it had waited for itself.
pub(crate) fn used_by_children() -> Counted {
    let mut used = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `used` is where the kernel may write, and outlives the call.
    if unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, used.as_mut_ptr()) } != 0 {
        return Counted::default();
    }
    // SAFETY: all zeros are a value of it, and the kernel has written another.
    let used = unsafe { used.assume_init() };
    let ms = |time: libc::timeval| u64::try_from(time.tv_sec * 1_000 + time.tv_usec / 1_000).unwrap_or(0);
    let largest_kilobytes = u64::try_from(used.ru_maxrss).unwrap_or(0);
    Counted {
        cpu_ms: ms(used.ru_utime) + ms(used.ru_stime),
        memory_peak_bytes: largest_kilobytes.saturating_mul(1_024),
        ..Counted::default()
    }
}

/// Makes a process in fresh namespaces, in the v2 control group that `group` is a directory of.
pub(crate) fn clone_into(namespaces: libc::c_int, group: Option<RawFd>) -> io::Result<Cloned> {
    let mut pidfd: RawFd = -1;
    let mut flags = u64::from(namespaces.unsigned_abs()) | u64::from(libc::CLONE_PIDFD.unsigned_abs());
    if group.is_some() {
        flags |= CLONE_INTO_CGROUP;
    }
    let arguments = CloneArguments {
        flags,
        pidfd: (&raw mut pidfd) as u64,
        exit_signal: u64::from(libc::SIGCHLD.unsigned_abs()),
        cgroup: group.map_or(0, |group| u64::from(group.unsigned_abs())),
        ..CloneArguments::default()
    };
    // SAFETY: single-threaded: the nursery and the keeper have no other thread, so the child may run any code;
    // `arguments` outlives the call and `pidfd` is where the kernel may write.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<CloneArguments>()) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Cloned::Child),
        pid => {
            // SAFETY: the kernel has just opened it for us, and nobody else knows it.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            Ok(Cloned::Parent { pid: i32::try_from(pid).unwrap_or(-1), pidfd })
        }
    }
}

const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

#[repr(C)]
#[derive(Default)]
struct CloneArguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// Becomes another program. Comes back only with the reason why not.
pub(crate) fn become_program(program: &CString, argv: &[CString], env: &[CString]) -> io::Error {
    let argv = pointers(argv);
    let env = pointers(env);
    // SAFETY: both lists are of NUL-terminated strings that outlive the call, and end in a null pointer.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
}

/// Ends this process at once: no destructor of the parent's copy may run in a child.
pub(crate) fn vanish(code: i32) -> ! {
    // SAFETY: ends the process; nothing runs after it.
    unsafe { libc::_exit(code) }
}

/// The ids of this process from now on, real, effective and saved.
pub(crate) fn become_user(uid: u32, gid: u32) -> io::Result<()> {
    // SAFETY: an empty list of groups.
    let groups = unsafe { libc::setgroups(0, std::ptr::null()) };
    if groups != 0 && io::Error::last_os_error().raw_os_error() != Some(libc::EPERM) {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: plain numbers; single-threaded, so that it holds for the whole process.
    if unsafe { libc::setresgid(gid, gid, gid) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above.
    if unsafe { libc::setresuid(uid, uid, uid) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// A descriptor that becomes readable when one of these signals is pending. They no longer interrupt.
pub(crate) fn signals_as_descriptor(signals: &[libc::c_int]) -> io::Result<OwnedFd> {
    // SAFETY: an all-zero set is a valid set.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    for signal in signals {
        // SAFETY: `set` is a valid set.
        unsafe { libc::sigaddset(&raw mut set, *signal) };
    }
    // SAFETY: `set` is a valid set, and the old one is not asked for.
    if unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `set` is a valid set; a new descriptor is made.
    let descriptor = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// What programs expect: no signal blocked, each with its default action.
pub(crate) fn reset_signals() {
    // SAFETY: an all-zero set is a valid, empty set.
    let set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a valid set.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut()) };
    for signal in 1..32 {
        // SAFETY: restores a default action; the two that cannot be changed are refused harmlessly.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Closes every descriptor from this one on.
pub(crate) fn close_from(first: u32) -> io::Result<()> {
    // SAFETY: called between fork and exec, or at the start of a process: nobody uses what is closed.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) };
    if closed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// In a child: closes every descriptor but the first three and this one.
pub(crate) fn close_all_but(kept: &impl AsRawFd) -> io::Result<()> {
    #[cfg(feature = "weakened")]
    if crate::weakness::keeps_descriptors() {
        return Ok(());
    }
    let kept = kept.as_raw_fd().unsigned_abs();
    if kept > 3 {
        // SAFETY: called between fork and exec: nobody uses what is closed.
        let closed = unsafe { libc::syscall(libc::SYS_close_range, 3, kept - 1, 0) };
        if closed != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    close_from(kept + 1)
}

/// Takes over a descriptor that this process was started with.
pub(crate) fn inherited(descriptor: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: only asks whether it is open.
    if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: open, and by agreement with the parent ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Makes `from` also known under the number `to`, open across exec.
pub(crate) fn duplicate_as(from: &impl AsRawFd, to: RawFd) -> io::Result<()> {
    // SAFETY: both are numbers; whatever `to` was is closed, which is what is wanted.
    let done = unsafe { libc::dup2(from.as_raw_fd(), to) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets the loopback device of this network namespace going.
pub(crate) fn raise_loopback() -> io::Result<()> {
    // SAFETY: makes a new descriptor.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened it for us.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    // SAFETY: all-zero is a valid request.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l'.cast_signed();
    request.ifr_name[1] = b'o'.cast_signed();
    request.ifr_ifru.ifru_flags = i16::try_from(libc::IFF_UP | libc::IFF_RUNNING).unwrap_or(0);
    // SAFETY: `request` is a valid request that outlives the call.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Children that end are forgotten by the kernel at once: nobody waits for them.
pub(crate) fn forget_children() {
    // SAFETY: sets a plain action.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
}

/// From now on the control groups of this process look like the root of all groups to it and its descendants. The
/// view that is made for it is also a mark on all of them, which none of them can take off.
pub(crate) fn leave_groups_behind() -> io::Result<()> {
    // SAFETY: single-threaded, and no memory or descriptor is concerned.
    let done = unsafe { libc::unshare(libc::CLONE_NEWCGROUP) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets a mount that is not in place yet show its files with the ids that the namespace maps them to.
pub(crate) fn show_with_ids_of(mount: &OwnedFd, namespace: &OwnedFd) -> io::Result<()> {
    let attributes = MountAttributes {
        set: libc::MOUNT_ATTR_IDMAP,
        namespace: u64::from(namespace.as_raw_fd().unsigned_abs()),
        ..MountAttributes::default()
    };
    set_mount_attributes(mount, &attributes)
}

/// Nobody writes through this mount, gains rights by its programs or reaches its devices.
pub(crate) fn make_read_only(mount: &OwnedFd) -> io::Result<()> {
    let set = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
    set_mount_attributes(mount, &MountAttributes { set, ..MountAttributes::default() })
}

fn set_mount_attributes(mount: &OwnedFd, attributes: &MountAttributes) -> io::Result<()> {
    // SAFETY: an empty NUL-terminated path and `attributes` outlive the call, and its true size is given.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            std::ptr::from_ref(attributes),
            size_of::<MountAttributes>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[repr(C)]
#[derive(Default)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    namespace: u64,
}

/// A user namespace in which the ids from `first` on stand for those of a sandbox. Its only process is gone again.
pub(crate) fn namespace_that_maps(first: u32, ids: IdMap) -> io::Result<OwnedFd> {
    let (mut wait_there, hold_here) = io::pipe()?;
    match clone_into(libc::CLONE_NEWUSER, None)? {
        Cloned::Child => {
            drop(hold_here);
            let _ = wait_there.read(&mut [0]);
            vanish(0)
        }
        Cloned::Parent { pid, .. } => {
            fs::write(format!("/proc/{pid}/uid_map"), format!("{first} {} {}", ids.uid, ids.count))?;
            fs::write(format!("/proc/{pid}/gid_map"), format!("{first} {} {}", ids.gid, ids.count))?;
            Ok(File::open(format!("/proc/{pid}/ns/user"))?.into())
        }
    }
}

/// The number of a loop device that nothing is behind, for the moment.
pub(crate) fn free_loop_device(control: &File) -> io::Result<i32> {
    const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
    // SAFETY: takes no argument and makes no descriptor.
    let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
    if number < 0 { Err(io::Error::last_os_error()) } else { Ok(number) }
}

/// Puts a file behind a device, until the last one who has it open lets go. What is written goes to the host's page
/// cache first: most of it goes with its sandbox before the disk has seen it, and whoever waits for the disk does not
/// wait for it.
pub(crate) fn configure_loop_device(device: &File, backing: &File, name: &Path) -> io::Result<()> {
    const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
    const AUTOCLEAR: u32 = 4;
    let mut request = LoopConfiguration {
        backing: backing.as_raw_fd().unsigned_abs(),
        block_size: 4096,
        information: LoopInformation { flags: AUTOCLEAR, ..LoopInformation::default() },
        reserved: [0; 8],
    };
    let room = request.information.name.iter_mut().take(63);
    room.zip(name.as_os_str().as_bytes()).for_each(|(place, byte)| *place = *byte);
    // SAFETY: `request` has the kernel's layout and outlives the call.
    let done = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const request) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[repr(C)]
struct LoopConfiguration {
    backing: u32,
    block_size: u32,
    information: LoopInformation,
    reserved: [u64; 8],
}

#[repr(C)]
struct LoopInformation {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encryption: [u32; 2],
    flags: u32,
    name: [u8; 64],
    encryption_name: [u8; 64],
    key: [u8; 32],
    init: [u64; 2],
}

impl Default for LoopInformation {
    fn default() -> Self {
        // SAFETY: plain numbers, of which all-zero is a valid value.
        unsafe { std::mem::zeroed() }
    }
}
