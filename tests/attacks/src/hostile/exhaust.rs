//! Exhaustion of everything that is limited. Each attempt stops by itself at a harmless bound.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::time::Duration;

use crate::keeper::now_ms;
use crate::kernel::{Ended, call, fork, in_child, text, wait_for};
use crate::verdict::{Attempt, Step, Verdict, errno_name, through_if};

const MIB: usize = 1 << 20;

pub(crate) const ATTEMPTS: &[(&str, Attempt)] = &[
    ("fork-bomb", |arguments| fork_bomb(number(arguments, 0))),
    ("thread-bomb", |arguments| thread_bomb(number(arguments, 0))),
    ("take-memory", |arguments| take_memory(number(arguments, 0))),
    ("take-memory-by-files", |arguments| fill_memory_files("/dev/shm", number(arguments, 0))),
    ("take-memory-by-memfd", |arguments| take_memfd(number(arguments, 0))),
    ("take-memory-by-shared-segments", |arguments| take_segments(number(arguments, 0))),
    ("take-memory-by-pipes", |arguments| take_pipes(number(arguments, 0))),
    ("take-memory-by-sockets", |arguments| take_sockets(number(arguments, 0))),
    ("fill-the-devices-directory", |_| {
        let piece = vec![7_u8; MIB];
        let fill = |mut file: File| (0..4).take_while(|_| file.write_all(&piece).is_ok()).count();
        let written = File::create("/dev/filler").map_or(0, fill);
        let _ = fs::remove_file("/dev/filler");
        through_if(written > 0, format!("{written} MiB in /dev"))
    }),
    ("open-files-without-end", |arguments| {
        let most = number(arguments, 0);
        let null = text("/dev/null");
        let opened = (0..most)
            .take_while(|_| call(libc::SYS_openat, &[AT_CWD, null.as_ptr().addr(), 0]).is_ok())
            .count();
        through_if(opened == most, format!("{opened} files"))
    }),
    ("terminals-without-end", |arguments| {
        let most = number(arguments, 0);
        let path = text("/dev/ptmx");
        let opened = (0..most)
            .take_while(|_| {
                call(libc::SYS_openat, &[AT_CWD, path.as_ptr().addr(), libc::O_RDWR as usize]).is_ok()
            })
            .count();
        through_if(opened == most, format!("{opened} terminals"))
    }),
    ("watches-without-end", |arguments| {
        let most = number(arguments, 0);
        let made = (0..most).take_while(|_| call(libc::SYS_inotify_init1, &[0]).is_ok()).count();
        println!("made {made}");
        // Long enough for the host to check what is left for others.
        std::thread::sleep(Duration::from_millis(1_500));
        Ok(Verdict::Held(format!("{made} watches")))
    }),
    ("take-requests-of-the-host", |arguments| {
        let (most, mut context) = (number(arguments, 0), 0_usize);
        let made = call(libc::SYS_io_setup, &[most, (&raw mut context).addr()]);
        println!("made {}", made.map_or_else(errno_name, |_| format!("room for {most}")));
        // Long enough for the host to check who is charged.
        std::thread::sleep(Duration::from_millis(1_500));
        Ok(Verdict::Held("the host checks what was taken from it".into()))
    }),
    ("queues-without-end", |arguments| {
        let most = number(arguments, 0);
        let queued = (0..most).take_while(|number| {
            let attributes = [0_u64, 10, 8_192, 0, 0, 0, 0, 0];
            let name = text(&format!("q{number}"));
            call(
                libc::SYS_mq_open,
                &[
                    name.as_ptr().addr(),
                    (libc::O_CREAT | libc::O_RDWR) as usize,
                    0o600,
                    attributes.as_ptr().addr(),
                ],
            )
            .is_ok()
        });
        let queued = queued.count();
        through_if(queued == most, format!("{queued} queues"))
    }),
    ("signals-without-end", |arguments| {
        let most = number(arguments, 0);
        let mask = [u64::MAX];
        call(libc::SYS_rt_sigprocmask, &[0, mask.as_ptr().addr(), 0, 8]).step("block signals")?;
        let own = std::process::id() as usize;
        let mut about = [0_u32; 32];
        about[2] = (-1_i32).cast_unsigned();
        let sent = (0..most)
            .take_while(|_| call(libc::SYS_rt_sigqueueinfo, &[own, 40, about.as_ptr().addr()]).is_ok())
            .count();
        through_if(sent == most, format!("{sent} signals"))
    }),
    ("lock-memory", |arguments| {
        let length = number(arguments, 0) * MIB;
        let memory = vec![1_u8; length];
        let locked = call(libc::SYS_mlock, &[memory.as_ptr().addr(), length]);
        match locked {
            Ok(_) => Ok(Verdict::Through(format!("{length} bytes locked"))),
            Err(errno) => Ok(Verdict::Held(errno_name(errno))),
        }
    }),
    ("fill-the-disk", |arguments| fill_disk(number(arguments, 0))),
    ("files-without-end", |arguments| {
        let most = number(arguments, 0);
        fs::create_dir_all("/workspace/many").step("make a directory")?;
        let made =
            (0..most).take_while(|number| File::create(format!("/workspace/many/{number}")).is_ok()).count();
        through_if(made == most, format!("{made} files"))
    }),
    ("spin", |arguments| {
        let (began, length) = (now_ms(), number(arguments, 0) as u64);
        while now_ms() - began < length {}
        let mut used = [0_u64; 2];
        call(libc::SYS_clock_gettime, &[2, used.as_mut_ptr().addr()]).step("read its time")?;
        let used = used[0] * 1_000 + used[1] / 1_000_000;
        through_if(used * 10 > length * 6, format!("{used} ms of {length}"))
    }),
    ("write-without-end", |arguments| {
        let piece = vec![b'x'; MIB];
        let mut out = std::io::stdout();
        let written = (0..number(arguments, 0)).take_while(|_| out.write_all(&piece).is_ok()).count();
        through_if(written == number(arguments, 0), format!("{written} MiB"))
    }),
    ("say-nothing", |_| {
        std::thread::sleep(Duration::from_secs(8));
        Ok(Verdict::Through("it was left alone".into()))
    }),
];

const AT_CWD: usize = (libc::AT_FDCWD as isize).cast_unsigned();

fn number(arguments: &[String], index: usize) -> usize {
    arguments.get(index).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Forks children that wait; kills all of them at the end.
fn fork_bomb(most: usize) -> Result<Verdict, String> {
    let (here, there) = std::io::pipe().step("make a pipe")?;
    let mut children = Vec::new();
    while children.len() < most {
        let child = fork(|| {
            let _ = call(
                libc::SYS_read,
                &[usize::try_from(std::os::fd::AsRawFd::as_raw_fd(&here)).unwrap_or(0), 0, 0],
            );
            std::thread::sleep(Duration::from_secs(4));
            0
        });
        match child {
            Ok(pid) => children.push(pid),
            Err(_) => break,
        }
    }
    for child in &children {
        let _ = call(libc::SYS_kill, &[*child, libc::SIGKILL as usize]);
        let _ = wait_for(*child);
    }
    drop(there);
    through_if(children.len() == most, format!("{} processes", children.len()))
}

fn thread_bomb(most: usize) -> Result<Verdict, String> {
    let mut threads = Vec::new();
    while threads.len() < most {
        let thread = std::thread::Builder::new()
            .stack_size(16 * 1024)
            .spawn(|| std::thread::sleep(Duration::from_millis(700)));
        match thread {
            Ok(thread) => threads.push(thread),
            Err(_) => break,
        }
    }
    through_if(threads.len() == most, format!("{} threads", threads.len()))
}

/// In a child, since the OOM killer may kill it.
fn in_a_child_that_may_be_ended(act: impl FnOnce() -> bool) -> Result<Verdict, String> {
    match in_child(|| i32::from(!act())).step("fork")? {
        Ended::Code(0) => Ok(Verdict::Through("it got all of it".into())),
        Ended::Code(_) => Ok(Verdict::Held("refused".into())),
        Ended::Signal(signal) => Ok(Verdict::Held(format!("ended by signal {signal}"))),
    }
}

fn take_memory(mib: usize) -> Result<Verdict, String> {
    in_a_child_that_may_be_ended(|| {
        let mut held = Vec::new();
        for _ in 0..mib {
            held.push(vec![1_u8; MIB]);
        }
        held.iter().all(|piece| piece[MIB - 1] == 1)
    })
}

fn fill_memory_files(directory: &str, mib: usize) -> Result<Verdict, String> {
    let path = format!("{directory}/filler");
    let ended = in_a_child_that_may_be_ended(|| {
        let piece = vec![1_u8; MIB];
        File::create(&path).is_ok_and(|mut file| (0..mib).all(|_| file.write_all(&piece).is_ok()))
    });
    let _ = fs::remove_file(path);
    ended
}

fn take_memfd(mib: usize) -> Result<Verdict, String> {
    in_a_child_that_may_be_ended(|| {
        let Ok(made) = call(libc::SYS_memfd_create, &[text("filler").as_ptr().addr(), 0]) else {
            return false;
        };
        let mut file = File::from(crate::kernel::owned(made));
        let piece = vec![1_u8; MIB];
        (0..mib).all(|_| file.write_all(&piece).is_ok())
    })
}

/// System V segments outlive their creator, until their namespace ends.
fn take_segments(mib: usize) -> Result<Verdict, String> {
    in_a_child_that_may_be_ended(|| {
        for _ in 0..mib {
            let Ok(segment) = call(libc::SYS_shmget, &[0, MIB, 0o1600]) else { return false };
            let Ok(at) = call(libc::SYS_shmat, &[segment, 0, 0]) else { return false };
            // Reading a file into it touches every page.
            let Ok(zero) = OpenOptions::new().read(true).open("/dev/zero") else { return false };
            let number = usize::try_from(std::os::fd::AsRawFd::as_raw_fd(&zero)).unwrap_or(0);
            if call(libc::SYS_read, &[number, at, MIB]).is_err() {
                return false;
            }
        }
        true
    })
}

fn take_pipes(mib: usize) -> Result<Verdict, String> {
    in_a_child_that_may_be_ended(|| {
        let piece = vec![1_u8; 64 * 1024];
        let mut held = Vec::new();
        for _ in 0..mib * 16 {
            let Ok((here, mut there)) = std::io::pipe() else { return false };
            let number = usize::try_from(std::os::fd::AsRawFd::as_raw_fd(&there)).unwrap_or(0);
            // Beyond the per-user limit pipes get smaller; they must not block.
            let _ = call(libc::SYS_fcntl, &[number, libc::F_SETFL as usize, libc::O_NONBLOCK as usize]);
            if there.write_all(&piece).is_err() {
                return false;
            }
            held.push((here, there));
        }
        true
    })
}

fn take_sockets(mib: usize) -> Result<Verdict, String> {
    in_a_child_that_may_be_ended(|| {
        let piece = vec![1_u8; 64 * 1024];
        let (mut held, mut queued) = (Vec::new(), 0);
        while queued < mib * MIB {
            let Ok((here, mut there)) = std::os::unix::net::UnixStream::pair() else { return false };
            if there.set_nonblocking(true).is_err() {
                return false;
            }
            while let Ok(written) = there.write(&piece) {
                queued += written;
            }
            held.push((here, there));
            if held.len() > 4_000 {
                return false;
            }
        }
        true
    })
}

fn fill_disk(mib: usize) -> Result<Verdict, String> {
    let path = "/workspace/filler";
    let mut file = File::create(path).step("make a file")?;
    let piece = vec![1_u8; MIB];
    let written = (0..mib).take_while(|_| file.write_all(&piece).is_ok()).count();
    let synced = file.sync_all().is_ok();
    let _ = fs::remove_file(path);
    through_if(written == mib && synced, format!("{written} MiB"))
}
