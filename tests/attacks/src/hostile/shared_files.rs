//! What files that a sandbox shares with others would tell or do: watches, locks, flushes, sizes.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use crate::kernel::{call, filesystem, owned, text};
use crate::verdict::{Attempt, Step, Verdict, errno_name, through_if};

pub(crate) const ATTEMPTS: &[(&str, Attempt)] = &[
    ("watch-a-path", |arguments| watch(&arguments[0])),
    ("hold-a-lock", |arguments| {
        let file = open(&arguments[1])?;
        lock_for(&arguments[0])?.take(&file).step("lock it")?;
        say("held");
        std::thread::sleep(Duration::from_secs(3));
        Ok(Verdict::Held("others check whether they notice".into()))
    }),
    ("feel-a-lock", |arguments| {
        let file = open(&arguments[1])?;
        let is_held = lock_for(&arguments[0])?.is_held_by_another(&file).step("try it")?;
        through_if(is_held, if is_held { "another holds it" } else { "it is free" })
    }),
    ("sync-a-file", |arguments| {
        let file = open(&arguments[0])?;
        let synced = file.sync_all();
        Ok(Verdict::Held(format!("fsync: {synced:?}; the host checks its disk")))
    }),
    ("tell-the-size-of", |arguments| {
        let size = filesystem(&arguments[0]).step("ask")?;
        println!("size {}", size.f_blocks);
        Ok(Verdict::Held("the host compares it".into()))
    }),
];

/// Two kinds of advisory locks. Both can be taken on a file that is open for reading.
#[derive(Clone, Copy)]
enum Lock {
    /// flock
    File,
    /// fcntl
    Record,
}

const SHARED: u64 = libc::F_RDLCK as u64;
const EXCLUSIVE: u64 = libc::F_WRLCK as u64;
const NONE: u64 = libc::F_UNLCK as u64;

impl Lock {
    fn take(self, file: &File) -> Result<(), i32> {
        let done = match self {
            Self::File => call(libc::SYS_flock, &[number(file), (libc::LOCK_EX | libc::LOCK_NB) as usize]),
            Self::Record => {
                let request = [SHARED, 0, 0, 0];
                call(libc::SYS_fcntl, &[number(file), libc::F_SETLK as usize, request.as_ptr().addr()])
            }
        };
        done.map(|_| ())
    }

    fn is_held_by_another(self, file: &File) -> Result<bool, i32> {
        match self {
            Self::File => match self.take(file) {
                Ok(()) => Ok(false),
                Err(libc::EWOULDBLOCK) => Ok(true),
                Err(errno) => Err(errno),
            },
            Self::Record => {
                // The kernel fills in the lock that conflicts; its type is in the lowest bits.
                let mut request = [EXCLUSIVE, 0, 0, 0];
                let pointer = request.as_mut_ptr().addr();
                call(libc::SYS_fcntl, &[number(file), libc::F_GETLK as usize, pointer])?;
                Ok(request[0] & 0xffff != NONE)
            }
        }
    }
}

fn lock_for(name: &str) -> Result<Lock, String> {
    match name {
        "file" => Ok(Lock::File),
        "record" => Ok(Lock::Record),
        other => Err(format!("there is no lock `{other}`")),
    }
}

fn open(path: &str) -> Result<File, String> {
    File::open(path).step("open it")
}

fn number(file: &impl AsRawFd) -> usize {
    usize::try_from(file.as_raw_fd()).unwrap_or(0)
}

/// At once: the suite waits for it.
fn say(word: &str) {
    println!("{word}");
    let _ = std::io::stdout().flush();
}

/// Waits some time for another process to open the file, or one in the directory.
fn watch(path: &str) -> Result<Verdict, String> {
    let watch: OwnedFd = owned(call(libc::SYS_inotify_init1, &[0]).step("make a watch")?);
    let path = text(path);
    call(libc::SYS_inotify_add_watch, &[number(&watch), path.as_ptr().addr(), libc::IN_OPEN as usize])
        .step("watch it")?;
    say("watching");
    let mut waiting = [u64::from(watch.as_raw_fd().cast_unsigned()) | 1 << 32];
    let timeout = [2_u64, 0];
    match call(libc::SYS_ppoll, &[waiting.as_mut_ptr().addr(), 1, timeout.as_ptr().addr()]) {
        Ok(0) => Ok(Verdict::Held("no word of others".into())),
        Ok(_) => Ok(Verdict::Through("it saw another open it".into())),
        Err(errno) => Err(errno_name(errno)),
    }
}
