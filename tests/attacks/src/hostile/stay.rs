//! Processes that resist a kill, and files that are hard to remove.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use crate::kernel::{call, exit_now, fork, ignore, text};
use crate::verdict::{Attempt, Step, Verdict, must_fail, through_if};

pub(crate) const ATTEMPTS: &[(&str, Attempt)] = &[
    ("stay-by-double-fork", |_| {
        fork(|| {
            let _ = call(libc::SYS_setsid, &[]);
            let _ = fork(|| stay(Path::new("/tmp/alive")));
            0
        })
        .step("fork")?;
        stay(Path::new("/tmp/alive-too"));
        Ok(Verdict::Held("it went".into()))
    }),
    ("stay-by-new-session", |_| {
        fork(|| {
            let _ = call(libc::SYS_setsid, &[]);
            stay(Path::new("/tmp/alive"))
        })
        .step("fork")?;
        // Only after the other process has left its group.
        std::thread::sleep(Duration::from_millis(300));
        Ok(Verdict::Held("the first process ended, the second stays".into()))
    }),
    ("lose-its-first-thread", |arguments| {
        let code = stay_without_first_thread(&arguments[0]);
        Err(format!("it kept its first thread: {code}"))
    }),
    ("stay-without-a-first-thread", |_| {
        fork(|| {
            let _ = call(libc::SYS_setsid, &[]);
            stay_without_first_thread("/tmp/alive")
        })
        .step("fork")?;
        stay(Path::new("/tmp/alive-too"));
        Ok(Verdict::Held("it went".into()))
    }),
    ("look-whether-it-stays", |_| {
        let look = || fs::read("/tmp/alive").unwrap_or_default();
        let before = look();
        std::thread::sleep(Duration::from_millis(400));
        let stays = look() != before;
        through_if(stays, if stays { "it goes on" } else { "no sign of life" })
    }),
    ("stay-deaf", |_| {
        for signal in 1..32 {
            ignore(signal);
        }
        stay(Path::new("/tmp/alive"));
        Ok(Verdict::Held("it went".into()))
    }),
    ("stay-stopped", |_| {
        fs::write("/tmp/alive", "1").step("say that it is there")?;
        let _ = call(libc::SYS_kill, &[std::process::id() as usize, libc::SIGSTOP as usize]);
        Ok(Verdict::Through("it was woken up".into()))
    }),
    ("stay-by-forking-faster", |_| {
        let fork_on = || {
            for _ in 0..200_000 {
                if fork(|| 0).is_err() {
                    std::thread::yield_now();
                }
                let _ = call(libc::SYS_wait4, &[usize::MAX, 0, libc::WNOHANG as usize]);
            }
            0
        };
        fork(fork_on).step("fork")?;
        // The first may have used up all pids by now.
        let _more: Vec<_> = (1..8).map(|_| fork(fork_on)).collect();
        stay(Path::new("/tmp/alive"));
        Ok(Verdict::Held("it went".into()))
    }),
    ("stay-traced", |_| {
        let child = fork(|| {
            let _ = call(libc::SYS_ptrace, &[libc::PTRACE_TRACEME as usize]);
            let _ = call(libc::SYS_kill, &[std::process::id() as usize, libc::SIGSTOP as usize]);
            0
        });
        child.step("fork")?;
        stay(Path::new("/tmp/alive"));
        Ok(Verdict::Held("it went".into()))
    }),
    ("stay-quietly", |_| {
        stay(Path::new("/tmp/alive"));
        Ok(Verdict::Held("it went".into()))
    }),
    ("leave-a-deep-tree", |arguments| {
        let deep: usize = arguments[0].parse().map_err(|_| "how deep".to_owned())?;
        std::env::set_current_dir("/workspace").step("enter the workspace")?;
        let name = "d".repeat(100);
        for _ in 0..deep {
            fs::create_dir(&name).step("make a directory")?;
            std::env::set_current_dir(&name).step("enter it")?;
        }
        Ok(Verdict::Held("left".into()))
    }),
    ("grow-a-file", |arguments| {
        let most: usize = arguments[0].parse().map_err(|_| "how large".to_owned())?;
        let mut file = File::create("/workspace/log").step("make a file")?;
        for _ in 0..most * 16 {
            file.write_all(&[b'x'; 1 << 16]).step("write")?;
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(Verdict::Held("grown".into()))
    }),
    ("leave-many-files", |arguments| {
        let most: usize = arguments[0].parse().map_err(|_| "how many".to_owned())?;
        fs::create_dir_all("/workspace/many").step("make a directory")?;
        for number in 0..most {
            File::create(format!("/workspace/many/{number}")).step("make a file")?;
        }
        Ok(Verdict::Held("left".into()))
    }),
    ("leave-links-to-outside", |arguments| {
        for (number, outside) in arguments.iter().enumerate() {
            symlink(outside, format!("/workspace/link{number}")).step("link")?;
            symlink(outside, format!("/link{number}")).step("link")?;
        }
        Ok(Verdict::Held("left".into()))
    }),
    ("leave-special-files", |_| {
        let mode = (libc::S_IFIFO | 0o666) as usize;
        call(libc::SYS_mknodat, &[AT_CWD, text("/workspace/fifo").as_ptr().addr(), mode, 0]).step("fifo")?;
        let _socket = UnixListener::bind("/workspace/socket").step("socket")?;
        let sparse = File::create("/workspace/sparse").step("sparse")?;
        sparse.set_len(1 << 40).step("make it a terabyte")?;
        Ok(Verdict::Held("left".into()))
    }),
    ("leave-strange-names", |_| {
        let names: [&[u8]; 6] =
            [b"\xff\xfe\x80", b"\x1b[2J\x1b]0;evil\x07", b"line\nbreak", b"-rf", b"Case", b"case"];
        for name in names {
            fs::create_dir(Path::new("/workspace").join(OsStr::from_bytes(name))).step("make a directory")?;
        }
        fs::create_dir(Path::new("/workspace").join("n".repeat(255))).step("make a long name")?;
        Ok(Verdict::Held("left".into()))
    }),
    ("leave-closed-directories", |_| {
        fs::create_dir_all("/workspace/closed/inner").step("make directories")?;
        File::create("/workspace/closed/inner/file").step("make a file")?;
        for path in ["/workspace/closed/inner", "/workspace/closed", "/workspace"] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o000)).step("close")?;
        }
        Ok(Verdict::Held("left".into()))
    }),
    ("leave-an-immutable-file", |_| {
        let file = File::create("/workspace/immutable").step("make a file")?;
        let flags = 0x10_u64;
        let number = usize::try_from(std::os::fd::AsRawFd::as_raw_fd(&file)).unwrap_or(0);
        must_fail(call(libc::SYS_ioctl, &[number, 0x4008_6602, (&raw const flags).addr()]))
    }),
    ("leave-hard-links", |_| {
        File::create("/workspace/one").step("make a file")?;
        for number in 0..1_000 {
            fs::hard_link("/workspace/one", format!("/workspace/link{number}")).step("link")?;
        }
        Ok(Verdict::Held("left".into()))
    }),
    ("swap-while-it-is-removed", |_| {
        // Swaps two names as fast as possible: one is a directory, one a link to the host.
        let outside = crate::verdict::suite_variable("CANARY")?;
        let outside = Path::new(&outside).parent().map(Path::to_owned).unwrap_or_default();
        fs::create_dir_all("/workspace/a").step("make a directory")?;
        symlink(outside, "/workspace/b").step("link")?;
        File::create("/tmp/alive").step("say that it is there")?;
        let (a, b) = (text("/workspace/a"), text("/workspace/b"));
        for _ in 0..100_000_000_u64 {
            let _ = call(libc::SYS_renameat2, &[AT_CWD, a.as_ptr().addr(), AT_CWD, b.as_ptr().addr(), 2]);
        }
        Ok(Verdict::Held("it tired of it".into()))
    }),
];

const AT_CWD: usize = (libc::AT_FDCWD as isize).cast_unsigned();

pub(crate) fn make_executable(path: &str) -> Result<(), String> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).step("make it executable")
}

/// Returns only on failure.
fn stay_without_first_thread(sign: &str) -> i32 {
    let sign = sign.to_owned();
    std::thread::spawn(move || exit_now(stay(Path::new(&sign))));
    call(libc::SYS_exit, &[0]).err().unwrap_or(1)
}

/// Writes a sign of life for as long as a test may last.
fn stay(sign: &Path) -> i32 {
    for beat in 0..400_u32 {
        if let Ok(mut file) = File::create(sign) {
            let _ = write!(file, "{beat}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    0
}
