//! Attacks on process 1: read it, trace it, use its descriptors, starve it, stop it, or block it.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::kernel::{call, fork, text};
use crate::verdict::{Attempt, Step, Verdict, must_be_refused, must_fail, must_not_work, through_if};

const KEEPER: usize = 1;

pub(crate) const ATTEMPTS: &[(&str, Attempt)] = &[
    ("read-of-process-1", |arguments| must_not_work(read_a_little(&format!("/proc/1/{}", arguments[0])))),
    ("list-of-process-1", |arguments| {
        must_not_work(fs::read_dir(format!("/proc/1/{}", arguments[0])).map(Iterator::count))
    }),
    ("write-memory-of-process-1", |_| must_not_work(OpenOptions::new().write(true).open("/proc/1/mem"))),
    ("trace-process-1", |_| {
        let seized = call(libc::SYS_ptrace, &[libc::PTRACE_SEIZE as usize, KEEPER]);
        must_fail(seized)
    }),
    ("take-a-descriptor-of-process-1", |_| {
        let handle = call(libc::SYS_pidfd_open, &[KEEPER]).step("a handle to process 1")?;
        // Some of the first descriptors are always open.
        let taken = (0..16).find_map(|number| call(libc::SYS_pidfd_getfd, &[handle, number]).ok());
        through_if(taken.is_some(), "descriptors 0 to 15")
    }),
    ("read-memory-of-process-1-directly", |_| {
        let maps = fs::read_to_string("/proc/1/maps").unwrap_or_default();
        let start =
            maps.split('-').next().and_then(|start| usize::from_str_radix(start, 16).ok()).unwrap_or(0x1000);
        let mut byte = [0_u8; 8];
        let (local, remote) = ([byte.as_mut_ptr().addr(), 8], [start, 8]);
        must_fail(call(
            libc::SYS_process_vm_readv,
            &[KEEPER, local.as_ptr().addr(), 1, remote.as_ptr().addr(), 1, 0],
        ))
    }),
    ("look-into-children-of-process-1", |_| look_into_children()),
    ("limit-open-files-of-process-1", |_| limit_keeper(7, 4)),
    ("limit-file-sizes-of-process-1", |_| limit_keeper(1, 0)),
    ("limit-cpu-time-of-process-1", |_| limit_keeper(0, 1_000_000)),
    ("make-process-1-idle", |_| {
        let parameter = [0_u32; 2];
        must_fail(call(libc::SYS_sched_setscheduler, &[KEEPER, 5, parameter.as_ptr().addr()]))
    }),
    ("be-nicer-than-process-1-wants", |_| must_fail(call(libc::SYS_setpriority, &[0, KEEPER, 19]))),
    ("be-nicer-than-all-of-its-user", |_| must_fail(call(libc::SYS_setpriority, &[2, 0, 19]))),
    ("pin-process-1-to-a-processor", |_| {
        let first = [1_u64; 1];
        must_fail(call(libc::SYS_sched_setaffinity, &[KEEPER, 8, first.as_ptr().addr()]))
    }),
    ("make-disk-access-of-process-1-idle", |_| must_fail(call(libc::SYS_ioprio_set, &[1, KEEPER, 3 << 13]))),
    ("make-disk-access-of-all-its-user-idle", |_| must_fail(call(libc::SYS_ioprio_set, &[3, 0, 3 << 13]))),
    ("offer-process-1-to-the-oom-killer", |_| must_not_work(fs::write("/proc/1/oom_score_adj", "1000"))),
    ("escape-the-oom-killer", |_| must_not_work(fs::write("/proc/self/oom_score_adj", "-999"))),
    ("real-time-priority", |_| {
        let parameter = [1_u32; 2];
        must_fail(call(libc::SYS_sched_setscheduler, &[0, 1, parameter.as_ptr().addr()]))
    }),
    ("kill-process-1", |_| {
        for signal in
            [libc::SIGTERM, libc::SIGINT, libc::SIGSEGV, libc::SIGABRT, libc::SIGSTOP, libc::SIGKILL]
        {
            let _ = call(libc::SYS_kill, &[KEEPER, usize::try_from(signal).unwrap_or(0)]);
        }
        Ok(Verdict::Held("sent six signals; the host checks whether process 1 still answers".into()))
    }),
    ("stop-all-it-can-see", |_| {
        let _ = call(libc::SYS_kill, &[usize::MAX, libc::SIGSTOP as usize]);
        Ok(Verdict::Held("stopped all it can; the host checks what still runs".into()))
    }),
    ("stop-new-processes", |_| {
        for _ in 0..2_000_000 {
            let _ = call(libc::SYS_kill, &[usize::MAX, libc::SIGSTOP as usize]);
        }
        Ok(Verdict::Held("nothing was left to stop".into()))
    }),
    ("steal-what-it-writes", |_| steal_output()),
    ("hold-the-lock-of-its-output", |arguments| hold_lock_of_output(&arguments[0])),
    ("orphans-without-end", |_| orphans_without_end()),
    ("pipe-in-place-of-the-probes-file", |_| {
        // The one predictable name: a probe should use a new one each time.
        let (path, mode) = (text("/workspace/.pinfold-probe"), (libc::S_IFIFO | 0o666) as usize);
        call(libc::SYS_mknodat, &[AT_CWD, path.as_ptr().addr(), mode, 0]).step("make a pipe")?;
        Ok(Verdict::Held("planted; the host runs the probe".into()))
    }),
    ("workspace-becomes-a-descriptor-of-the-keeper", |arguments| {
        let _ = fs::remove_dir_all("/workspace");
        let _ = fs::remove_file("/workspace");
        symlink(format!("/proc/self/fd/{}", arguments[0]), "/workspace").step("plant a link")?;
        Ok(Verdict::Held("planted".into()))
    }),
    ("program-becomes-a-descriptor-of-the-keeper", |arguments| {
        let up = "/..".repeat(12);
        let link = Path::new("/tmp/program");
        let _ = fs::remove_file(link);
        symlink(format!("/proc/self/fd/{}{up}{}", arguments[0], arguments[1]), link).step("plant a link")?;
        Ok(Verdict::Held("planted".into()))
    }),
    ("catch-the-runtime", |_| catch_the_runtime()),
    ("run-the-runtime-by-proc-self-exe", |_| {
        fs::write("/tmp/trap", "#!/proc/self/exe\n").step("plant a script")?;
        crate::stay::make_executable("/tmp/trap")?;
        Ok(Verdict::Held("planted".into()))
    }),
];

/// Waits for a process whose executable has no path inside, and tries to open it for writing.
fn catch_the_runtime() -> Result<Verdict, String> {
    for _ in 0..100_000 {
        let running = fs::read_dir("/proc").step("list processes")?.flatten();
        for exe in running.map(|entry| entry.path().join("exe")) {
            let Ok(held) = File::open(&exe) else { continue };
            let again = format!("/proc/self/fd/{}", held.as_raw_fd());
            let name = fs::read_link(&again).unwrap_or_default();
            if name.starts_with("/usr") || name.starts_with("/tmp/hostile") {
                continue;
            }
            return judge(&held, &again, &name.display().to_string());
        }
    }
    Err("no runtime was seen".into())
}

fn judge(held: &File, again: &str, name: &str) -> Result<Verdict, String> {
    const GET_SEALS: usize = 1034;
    const SEALED_AGAINST_WRITING: usize = 8;
    let number = usize::try_from(held.as_raw_fd()).unwrap_or(0);
    let seals = call(libc::SYS_fcntl, &[number, GET_SEALS]).unwrap_or(0);
    if seals & SEALED_AGAINST_WRITING != 0 {
        return Ok(Verdict::Held(format!("{name} is sealed")));
    }
    match OpenOptions::new().write(true).open(again) {
        Ok(_) => Ok(Verdict::Through(format!("{name} can be written to"))),
        // Not writable while it runs, but it would be afterwards.
        Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
            Ok(Verdict::Through(format!("{name} could be written to once it does not run")))
        }
        Err(error) => Ok(Verdict::Held(format!("{name}: {error}"))),
    }
}

/// Looks into children of process 1 that are not this program.
fn look_into_children() -> Result<Verdict, String> {
    let (mut seen, mut open) = (0, Vec::new());
    for entry in fs::read_dir("/proc").step("list processes")?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Ok(status) = crate::escape::status_of(&name) else { continue };
        let is_child = status.lines().any(|line| line == "PPid:\t1");
        if !is_child || name == "self" || name == "thread-self" || name == std::process::id().to_string() {
            continue;
        }
        seen += 1;
        for file in ["mem", "environ", "maps", "exe", "root/proc"] {
            if File::open(entry.path().join(file)).is_ok() {
                open.push(format!("{file} of {name}"));
            }
        }
    }
    if seen == 0 {
        return Err("there is none".into());
    }
    through_if(!open.is_empty(), format!("{open:?} of {seen}"))
}

const AT_CWD: usize = (libc::AT_FDCWD as isize).cast_unsigned();

fn read_a_little(path: &str) -> std::io::Result<usize> {
    File::open(path)?.read(&mut [0; 16]).or_else(|error| match error.raw_os_error() {
        // Nothing is mapped at address zero; opening it is enough.
        Some(libc::EIO) => Ok(0),
        _ => Err(error),
    })
}

fn limit_keeper(resource: usize, most: u64) -> Result<Verdict, String> {
    let limit = [most, most];
    must_fail(call(libc::SYS_prlimit64, &[KEEPER, resource, limit.as_ptr().addr(), 0]))
}

/// Reads back from its own output pipe what it has just written, after process 1 may have polled it as readable.
/// Writes to the other output keep process 1 busy in between.
fn steal_output() -> Result<Verdict, String> {
    for _ in 0..3 {
        fork(|| {
            let Ok(mut thief) = OpenOptions::new().read(true).open("/proc/self/fd/1") else { return 1 };
            let mut taken = [0; 4096];
            while thief.read(&mut taken).is_ok() {}
            0
        })
        .step("fork")?;
    }
    const NOISE: usize = 2;
    call(libc::SYS_fcntl, &[NOISE, libc::F_SETFL as usize, libc::O_NONBLOCK as usize]).step("do not wait")?;
    let piece = [b'x'; 16 * 1024];
    let mut out = std::io::stdout();
    // No more than 64 MiB.
    for _ in 0..4_096 {
        if call(libc::SYS_write, &[NOISE, piece.as_ptr().addr(), piece.len()]).is_ok() {
            continue;
        }
        let _ = out.write_all(b"x");
        let _ = out.flush();
        // The noise stays unread: process 1 is blocked on the byte that was taken back.
        let wanted = [libc::pollfd { fd: 2, events: libc::POLLOUT, revents: 0 }];
        if call(libc::SYS_poll, &[wanted.as_ptr().addr(), 1, 500]) == Ok(0) {
            break;
        }
    }
    std::thread::sleep(Duration::from_secs(20));
    Ok(Verdict::Held("wrote and took back; the host checks whether process 1 still answers".into()))
}

/// Splices a byte into its own output from a socket and waits for a second one, which never comes: until then the
/// byte is readable and the pipe is locked. A write to the other output wakes process 1.
fn hold_lock_of_output(by: &str) -> Result<Verdict, String> {
    const OUTPUT: usize = 1;
    let (from, mut to) = UnixStream::pair().step("make a socket")?;
    // Longer than a stop may take.
    from.set_read_timeout(Some(Duration::from_secs(30))).step("bound its wait")?;
    let number = usize::try_from(from.as_raw_fd()).unwrap_or(0);
    let (level, least, two) = (libc::SOL_SOCKET as usize, libc::SO_RCVLOWAT as usize, 2_i32);
    call(libc::SYS_setsockopt, &[number, level, least, (&raw const two).addr(), 4]).step("wait for two")?;
    to.write_all(b"x").step("send one")?;
    fork(|| {
        for _ in 0..40 {
            let _ = std::io::stderr().write_all(b"noise");
            std::thread::sleep(Duration::from_millis(50));
        }
        0
    })
    .step("fork")?;
    let moved = match by {
        "splice" => call(libc::SYS_splice, &[number, 0, OUTPUT, 0, 4_096, 0]),
        _ => call(libc::SYS_sendfile, &[OUTPUT, number, 0, 4_096]),
    };
    must_be_refused(moved, &[libc::EINVAL])
}

/// Orphans are process 1's to reap: creates more than it can.
fn orphans_without_end() -> Result<Verdict, String> {
    for _ in 0..4 {
        fork(|| {
            let began = now_ms();
            while now_ms() - began < 3_000 {
                if let Ok(child) = fork(|| {
                    let _ = fork(|| 0);
                    let _ = fork(|| 0);
                    0
                }) {
                    let _ = crate::kernel::wait_for(child);
                }
            }
            0
        })
        .step("fork")?;
    }
    std::thread::sleep(Duration::from_secs(4));
    Ok(Verdict::Held("the host checks whether process 1 still answers".into()))
}

pub(crate) fn now_ms() -> u64 {
    let mut time = [0_u64; 2];
    let _ = call(libc::SYS_clock_gettime, &[1, time.as_mut_ptr().addr()]);
    time[0] * 1_000 + time[1] / 1_000_000
}
