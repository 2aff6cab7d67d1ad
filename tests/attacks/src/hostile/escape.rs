//! Escapes by files: kernel settings, devices, links, privileged programs, leaked descriptors.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use crate::kernel::{Ended, call, filesystem, in_child, text};
use crate::verdict::{Attempt, Step, Verdict, must_fail, must_not_work, suite_variable, through_if};

pub(crate) const ATTEMPTS: &[(&str, Attempt)] = &[
    ("write-kernel-setting", |arguments| write_back(&arguments[0])),
    ("open-for-writing", |arguments| must_not_work(OpenOptions::new().write(true).open(&arguments[0]))),
    ("see-hidden-path", |arguments| see_hidden(&arguments[0])),
    ("write-to-shared", |arguments| write_to_shared(arguments)),
    ("read-canary-by-its-path", |_| must_not_work(fs::read(suite_variable("CANARY")?))),
    ("make-a-block-device", |_| {
        let (path, mode) = (text("/tmp/disk"), (libc::S_IFBLK | 0o666) as usize);
        must_fail(call(libc::SYS_mknodat, &[AT_CWD, path.as_ptr().addr(), mode, 0xfe00]))
    }),
    ("use-a-device-node-of-its-image", |arguments| must_not_work(File::open(&arguments[0]))),
    ("find-the-hosts-disks", |_| {
        let mut found = Vec::new();
        for entry in fs::read_dir("/dev").step("list /dev")?.flatten() {
            use std::os::unix::fs::FileTypeExt;
            if entry.file_type().is_ok_and(|kind| kind.is_block_device()) {
                found.push(entry.path());
            }
        }
        through_if(!found.is_empty(), format!("block devices: {found:?}"))
    }),
    ("find-disks-in-sys", |_| find_disks_in_sys()),
    ("root-by-a-setuid-file", |arguments| root_by_setuid(&arguments[0])),
    ("am-i-root", |_| through_if(call(libc::SYS_geteuid, &[]) == Ok(0), "who it became")),
    ("capability-by-a-file", |arguments| capability_by_file(&arguments[0])),
    ("have-net-admin", |_| through_if(has_net_admin(), "its effective capabilities")),
    ("raise-a-capability", |_| raise_admin()),
    ("find-inheritable-capabilities", |_| find_inheritable()),
    ("find-a-console", |_| must_not_work(fs::symlink_metadata("/dev/console"))),
    ("raise-an-ambient-capability", |_| raise_ambient()),
    ("write-through-a-leaked-directory", |_| write_through_leaks()),
    ("reach-outside-from-its-working-directory", |_| outside_of_root(".")),
    ("walk-up-from-the-root", |_| outside_of_root("/../../../../..")),
    ("break-out-of-a-chroot", |arguments| break_out(arguments.first().map(String::as_str))),
    ("reopen-a-descriptor-for-writing", |arguments| {
        let held = File::open(&arguments[0]).step("open it for reading")?;
        let again = format!("/proc/self/fd/{}", held.as_raw_fd());
        must_not_work(OpenOptions::new().write(true).open(again))
    }),
    ("link-a-file-of-the-host", |arguments| must_not_work(fs::hard_link(&arguments[0], &arguments[1]))),
    ("child-less-confined-than-its-parent", |_| compare_with_child()),
    ("plant-links-in-place-of-mounts", |arguments| {
        // What a hostile image, or earlier code, leaves for the next setup of the root.
        let (outside, mut planted) = (&arguments[0], Vec::new());
        for name in ["etc", "home", "opt", "srv", "var", "workspace"] {
            let path = Path::new("/").join(name);
            // Directories with mounts in them cannot be replaced.
            if fs::rename(&path, format!("/tmp/old-{name}")).or_else(|_| fs::remove_dir(&path)).is_ok() {
                symlink(outside, &path).step("plant a link")?;
                planted.push(name);
            }
        }
        if planted.is_empty() {
            Err("no place for a link".into())
        } else {
            Ok(Verdict::Through(format!("{planted:?}")))
        }
    }),
];

const AT_CWD: usize = (libc::AT_FDCWD as isize).cast_unsigned();

/// Writes back the old content, so that nothing changes.
fn write_back(path: &str) -> Result<Verdict, String> {
    let was = fs::read(path).unwrap_or_default();
    let written = OpenOptions::new().write(true).open(path).and_then(|mut file| file.write_all(&was));
    must_not_work(written)
}

/// A hidden path is the null device or an empty directory of another file system.
fn see_hidden(path: &str) -> Result<Verdict, String> {
    const KERNEL_VIEWS: [libc::__fsword_t; 2] = [0x9fa0, 0x6265_6572];
    if !Path::new(path).exists() {
        return Ok(Verdict::Held("it is not there".into()));
    }
    let kind = filesystem(path).step("look at it")?.f_type;
    through_if(KERNEL_VIEWS.contains(&kind), format!("a file of kind {kind:x}"))
}

/// The kernel lists each disk, and the file behind a loop device, in a directory `block` somewhere below `/sys`.
fn find_disks_in_sys() -> Result<Verdict, String> {
    const MOST: usize = 20_000;
    let (mut directories, mut seen) = (vec![Path::new("/sys").to_owned()], 0);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten().take(MOST - seen.min(MOST)) {
            seen += 1;
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let path = entry.path();
            let has_entries = || fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_some());
            if entry.file_name() == "block" && has_entries() {
                return Ok(Verdict::Through(format!("{}", path.display())));
            }
            directories.push(path);
        }
    }
    Ok(Verdict::Held(format!("none among {seen} entries")))
}

fn write_to_shared(directories: &[String]) -> Result<Verdict, String> {
    for directory in directories {
        let path = Path::new(directory).join("pinfold-was-here");
        if fs::write(&path, "x").is_ok() {
            let _ = fs::remove_file(&path);
            return Ok(Verdict::Through(format!("wrote to {directory}")));
        }
    }
    Ok(Verdict::Held(format!("none of {directories:?} can be written to")))
}

/// A set-user-id copy of this program owned by root, run by another user.
fn root_by_setuid(program: &str) -> Result<Verdict, String> {
    let copy = "/tmp/setuid";
    fs::set_permissions("/", fs::Permissions::from_mode(0o755)).step("open its root up")?;
    fs::copy(program, copy).step("copy")?;
    chown(copy, Some(0), Some(0)).step("give to root")?;
    fs::set_permissions(copy, fs::Permissions::from_mode(0o4755)).step("set user id")?;
    as_unprivileged_user(copy, "am-i-root")
}

/// Runs an attempt of `program` as a user without privileges.
fn as_unprivileged_user(program: &str, attempt: &str) -> Result<Verdict, String> {
    let (program, attempt) = (text(program), text(attempt));
    let ended = in_child(|| {
        let stepped = call(libc::SYS_setgroups, &[0]).is_ok()
            && call(libc::SYS_setresgid, &[1000, 1000, 1000]).is_ok()
            && call(libc::SYS_setresuid, &[1000, 1000, 1000]).is_ok();
        if !stepped {
            return 43;
        }
        let argv = [program.as_ptr().addr(), attempt.as_ptr().addr(), 0];
        let env = [0_usize];
        let _ = call(libc::SYS_execve, &[program.as_ptr().addr(), argv.as_ptr().addr(), env.as_ptr().addr()]);
        44
    });
    match ended.step("fork")? {
        Ended::Code(0) => Ok(Verdict::Through("the file gave what it promised".into())),
        Ended::Code(code @ (43 | 44)) => Err(format!("could not begin: {code}")),
        other => Ok(Verdict::Held(format!("it gave nothing: {other:?}"))),
    }
}

const NET_ADMIN: u32 = 12;

fn capability_by_file(program: &str) -> Result<Verdict, String> {
    let copy = "/tmp/capable";
    fs::set_permissions("/", fs::Permissions::from_mode(0o755)).step("open its root up")?;
    fs::copy(program, copy).step("copy")?;
    fs::set_permissions(copy, fs::Permissions::from_mode(0o755)).step("open up")?;
    // Version 2, effective; one bit permitted, none inheritable.
    let bits: [u32; 5] = [0x0200_0001, 1 << NET_ADMIN, 0, 0, 0];
    let (path, name) = (text(copy), text("security.capability"));
    let arguments = [path.as_ptr().addr(), name.as_ptr().addr(), bits.as_ptr().addr(), size_of_val(&bits), 0];
    if let Err(errno) = call(libc::SYS_setxattr, &arguments) {
        return must_fail::<()>(Err(errno));
    }
    as_unprivileged_user(copy, "have-net-admin")
}

fn has_net_admin() -> bool {
    status_of("self").is_ok_and(|status| bits(&status, "CapEff:") & (1 << NET_ADMIN) != 0)
}

/// In its own capability sets, and in those of every visible process.
fn find_inheritable() -> Result<Verdict, String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").step("list processes")?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_process = name.bytes().all(|byte| byte.is_ascii_digit());
        if is_process && status_of(&name).is_ok_and(|status| bits(&status, "CapInh:") != 0) {
            found.push(name);
        }
    }
    through_if(!found.is_empty(), format!("processes with some: {found:?}"))
}

pub(crate) fn status_of(process: &str) -> Result<String, String> {
    fs::read_to_string(format!("/proc/{process}/status")).step("read a status")
}

pub(crate) fn bits(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    u64::from_str_radix(line.trim(), 16).unwrap_or(0)
}

/// The header has two words, and each of the three sets has two words.
fn raise_admin() -> Result<Verdict, String> {
    const SYS_ADMIN: u32 = 1 << 21;
    must_fail(set_capabilities([SYS_ADMIN, SYS_ADMIN, 0]))
}

fn set_capabilities([effective, permitted, inheritable]: [u32; 3]) -> Result<usize, i32> {
    let header: [u32; 2] = [0x2008_0522, 0];
    let sets: [u32; 6] = [effective, permitted, inheritable, 0, 0, 0];
    call(libc::SYS_capset, &[header.as_ptr().addr(), sets.as_ptr().addr()])
}

/// A capability that it has, made inheritable and ambient, would outlive the step down from root.
fn raise_ambient() -> Result<Verdict, String> {
    let own = u32::try_from(bits(&status_of("self")?, "CapPrm:") & 0xffff_ffff).unwrap_or(0);
    if let Err(errno) = set_capabilities([own, own, own]) {
        return must_fail::<()>(Err(errno));
    }
    must_fail(call(libc::SYS_prctl, &[libc::PR_CAP_AMBIENT as usize, 2, 0, 0, 0]))
}

/// Tries every descriptor that it did not open itself.
fn write_through_leaks() -> Result<Verdict, String> {
    for number in 3..64 {
        let path = format!("/proc/self/fd/{number}/pinfold-was-here");
        if fs::write(&path, "x").is_ok() {
            return Ok(Verdict::Through(format!("wrote by descriptor {number}")));
        }
        if let Ok(target) = fs::read_link(format!("/proc/self/fd/{number}"))
            && !target.to_string_lossy().starts_with("pipe:")
            && fs::metadata(format!("/proc/self/fd/{number}")).is_ok_and(|found| found.is_dir())
        {
            return Ok(Verdict::Through(format!("descriptor {number} is {}", target.display())));
        }
    }
    Ok(Verdict::Held("no descriptor leads anywhere".into()))
}

/// Looks for the host's root from here: the sandbox's own contains this program.
fn outside_of_root(from: &str) -> Result<Verdict, String> {
    let canary = suite_variable("CANARY")?;
    let mut up = from.to_owned();
    for _ in 0..24 {
        if fs::read(format!("{up}{canary}")).is_ok() {
            return Ok(Verdict::Through(format!("the host's files are at {up}")));
        }
        up.push_str("/..");
    }
    let here = std::env::current_dir();
    match here {
        // A working directory outside of the root has no name inside.
        Err(error) => Ok(Verdict::Through(format!("its working directory is outside: {error}"))),
        Ok(here) if here.to_string_lossy().starts_with("(unreachable)") => {
            Ok(Verdict::Through("its working directory is outside".into()))
        }
        Ok(here) => Ok(Verdict::Held(format!("in {}", here.display()))),
    }
}

/// The classic escape: a second chroot with the working directory left outside. With an argument it first enters a
/// chroot of its own.
fn break_out(jail: Option<&str>) -> Result<Verdict, String> {
    let marker = match jail {
        Some(jail) => {
            fs::create_dir_all(format!("{jail}/inner")).step("make a jail")?;
            enter(jail)?;
            "/tmp/hostile".to_owned()
        }
        None => {
            fs::create_dir_all("/inner").step("make a directory")?;
            suite_variable("CANARY")?
        }
    };
    call(libc::SYS_chroot, &[text("/inner").as_ptr().addr()]).step("chroot again")?;
    for _ in 0..64 {
        call(libc::SYS_chdir, &[text("..").as_ptr().addr()]).step("go up")?;
    }
    call(libc::SYS_chroot, &[text(".").as_ptr().addr()]).step("chroot to the top")?;
    through_if(Path::new(&marker).exists(), format!("looked for {marker}"))
}

fn enter(jail: &str) -> Result<(), String> {
    std::env::set_current_dir(jail).step("enter the jail")?;
    call(libc::SYS_chroot, &[text(".").as_ptr().addr()]).step("chroot")?;
    Ok(())
}

fn compare_with_child() -> Result<Verdict, String> {
    let own = status_of("self")?;
    let (mut here, there) = std::io::pipe().step("make a pipe")?;
    let there: OwnedFd = there.into();
    let pid = crate::kernel::fork(|| {
        let status = status_of("self").unwrap_or_default();
        i32::from(
            File::from(there.try_clone().unwrap_or_else(|_| crate::kernel::owned(1)))
                .write_all(status.as_bytes())
                .is_err(),
        )
    });
    let pid = pid.step("fork")?;
    drop(there);
    let mut child = String::new();
    here.read_to_string(&mut child).step("listen to the child")?;
    crate::kernel::wait_for(pid).step("wait")?;
    let line = |status: &str, name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).map(str::to_owned)
    };
    for name in ["Seccomp:", "Seccomp_filters:", "NoNewPrivs:", "CapBnd:", "CapPrm:", "CapEff:"] {
        if line(&own, name) != line(&child, name) {
            return Ok(Verdict::Through(format!("{name} differs")));
        }
    }
    through_if(line(&own, "Seccomp:").as_deref() != Some("2"), "the same as its parent")
}
