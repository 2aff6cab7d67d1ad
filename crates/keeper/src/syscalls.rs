//! System calls without a safe wrapper in another crate, one function each.

#![allow(unsafe_code, reason = "the kernel's own interface")]

use std::ffi::{CString, c_char};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use pinfold_confine::syscalls::close_from;

use pinfold_keeper_wire::ProcessUsage;

/// Resource usage of all reaped descendants.
pub(crate) fn usage_of_children() -> ProcessUsage {
    let mut used = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // Ask for the usage of reaped children (getrusage).
    // SAFETY: `used` is valid for the kernel's write and outlives the call.
    if unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, used.as_mut_ptr()) } != 0 {
        return ProcessUsage::default();
    }
    // SAFETY: initialised: zeroed, then filled in by the kernel.
    let used = unsafe { used.assume_init() };
    let ms = |time: libc::timeval| u64::try_from(time.tv_sec * 1_000 + time.tv_usec / 1_000).unwrap_or(0);
    let largest_kilobytes = u64::try_from(used.ru_maxrss).unwrap_or(0);
    ProcessUsage {
        cpu_ms: ms(used.ru_utime) + ms(used.ru_stime),
        memory_peak_bytes: largest_kilobytes.saturating_mul(1_024),
        ..ProcessUsage::default()
    }
}

/// Replaces this process with a program. Returns only on failure.
pub(crate) fn execve(program: &CString, argv: &[CString], env: &[CString]) -> io::Error {
    let argv = pointers(argv);
    let env = pointers(env);
    // Execute the program (execve).
    // SAFETY: both lists hold NUL-terminated strings that outlive the call, and end in a null pointer.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
}

/// A descriptor that becomes readable when one of these signals is pending. The signals are blocked.
pub(crate) fn signal_fd(signals: &[libc::c_int]) -> io::Result<OwnedFd> {
    // SAFETY: an all-zero sigset_t is an empty set.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    for signal in signals {
        // Add the signal (sigaddset).
        // SAFETY: `set` is an initialised set.
        unsafe { libc::sigaddset(&raw mut set, *signal) };
    }
    // Block the signals (sigprocmask), so that they stay pending.
    // SAFETY: `set` is an initialised set; the previous mask is not requested, so null is allowed.
    if unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // Open the descriptor (signalfd).
    // SAFETY: `set` is an initialised set that outlives the call.
    let descriptor = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened this descriptor, and no other object owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Restores what programs expect: no signal blocked, each with its default action.
pub(crate) fn reset_signals() {
    // SAFETY: an all-zero sigset_t is an empty set.
    let set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // Unblock all signals (sigprocmask).
    // SAFETY: `set` is an initialised set; the previous mask is not requested, so null is allowed.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut()) };
    for signal in 1..32 {
        // Restore the default action (signal).
        // SAFETY: installs no handler; SIGKILL and SIGSTOP are rejected without effect.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// In a child: closes every descriptor but standard input, output, error and `kept`.
pub(crate) fn close_all_but(kept: &impl AsRawFd) -> io::Result<()> {
    #[cfg(feature = "weakened")]
    if crate::disabled_guards::keeps_descriptors() {
        return Ok(());
    }
    let kept = kept.as_raw_fd().unsigned_abs();
    if kept > 3 {
        // Close the descriptors from 3 up to `kept` (close_range).
        // SAFETY: called between fork and exec: no live object uses the closed descriptors.
        let closed = unsafe { libc::syscall(libc::SYS_close_range, 3, kept - 1, 0) };
        if closed != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    close_from(kept + 1)
}

/// Takes over a descriptor that this process was started with.
pub(crate) fn take_inherited(descriptor: RawFd) -> io::Result<OwnedFd> {
    // Check that the descriptor is open (fcntl F_GETFD).
    // SAFETY: reads flags only.
    if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open, and the parent passed it for this process alone to own.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Duplicates `from` as descriptor number `to`, without close-on-exec.
pub(crate) fn dup_to(from: &impl AsRawFd, to: RawFd) -> io::Result<()> {
    // Duplicate the descriptor (dup2).
    // SAFETY: plain numbers; no object of this process owns `to`, which dup2 closes.
    let done = unsafe { libc::dup2(from.as_raw_fd(), to) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Brings the loopback interface of this network namespace up.
pub(crate) fn bring_loopback_up() -> io::Result<()> {
    // Open a socket for interface ioctls (socket).
    // SAFETY: plain numbers.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened this descriptor, and no other object owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    // SAFETY: all fields of ifreq are integers, for which all-zero is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l'.cast_signed();
    request.ifr_name[1] = b'o'.cast_signed();
    request.ifr_ifru.ifru_flags = i16::try_from(libc::IFF_UP | libc::IFF_RUNNING).unwrap_or(0);
    // Set the interface flags (ioctl SIOCSIFFLAGS).
    // SAFETY: `request` is an initialised ifreq that outlives the call.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the kernel reap children by itself: the spawner does not wait for keepers.
pub(crate) fn ignore_child_exits() {
    // Ignore SIGCHLD (signal), which makes the kernel reap children.
    // SAFETY: installs no handler.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
}

/// Enters a new cgroup namespace: this process and its descendants see their cgroup as the root. They cannot leave the
/// namespace, so it also identifies all processes of an execution.
pub(crate) fn unshare_cgroup_namespace() -> io::Result<()> {
    // Create and enter a cgroup namespace (unshare).
    // SAFETY: single-threaded; affects no memory or descriptor.
    let done = unsafe { libc::unshare(libc::CLONE_NEWCGROUP) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes a detached mount show its files with the ids that the user namespace maps them to.
pub(crate) fn set_idmap(mount: &OwnedFd, namespace: &OwnedFd) -> io::Result<()> {
    let attributes = MountAttributes {
        set: libc::MOUNT_ATTR_IDMAP,
        namespace: u64::from(namespace.as_raw_fd().unsigned_abs()),
        ..MountAttributes::default()
    };
    set_mount_attributes(mount, &attributes)
}

/// Makes a detached mount read-only, nosuid and nodev.
pub(crate) fn make_read_only(mount: &OwnedFd) -> io::Result<()> {
    let set = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
    set_mount_attributes(mount, &MountAttributes { set, ..MountAttributes::default() })
}

/// Makes a detached mount nodev.
pub(crate) fn make_nodev(mount: &OwnedFd) -> io::Result<()> {
    let set = libc::MOUNT_ATTR_NODEV;
    set_mount_attributes(mount, &MountAttributes { set, ..MountAttributes::default() })
}

fn set_mount_attributes(mount: &OwnedFd, attributes: &MountAttributes) -> io::Result<()> {
    // Change the attributes of the mount (mount_setattr).
    // SAFETY: the empty path is NUL-terminated, `attributes` outlives the call, and the size is its own.
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

/// The number of a free loop device. Another process may take it first.
pub(crate) fn free_loop_device(control: &File) -> io::Result<i32> {
    const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
    // Ask for a free device (ioctl LOOP_CTL_GET_FREE).
    // SAFETY: takes no argument and opens no descriptor.
    let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
    if number < 0 { Err(io::Error::last_os_error()) } else { Ok(number) }
}

/// Attaches a file to a loop device until the last descriptor and mount of the device is gone. Writes go to the host's
/// page cache without direct IO: most of them are deleted with the sandbox before they reach the disk, and other users
/// of the disk do not wait for them.
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
    // Attach the file (ioctl LOOP_CONFIGURE).
    // SAFETY: `request` has the layout of the kernel's `struct loop_config` and outlives the call.
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
        // SAFETY: all fields are integers, for which all-zero is valid.
        unsafe { std::mem::zeroed() }
    }
}
