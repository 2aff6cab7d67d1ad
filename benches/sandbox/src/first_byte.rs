//! Waiting for a command's first byte of output without polling: the kernel tells of every change to its log.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use pinfold_keeper::log::Reader;
use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

const PATIENCE: Duration = Duration::from_secs(60);

/// What the kernel tells of changes by. To let go of it takes the kernel milliseconds, which are nobody's to count: it is
/// done on a thread of its own, where it holds up nobody.
pub(crate) struct Notes {
    descriptor: Option<AsyncFd<OwnedFd>>,
}

impl Drop for Notes {
    fn drop(&mut self) {
        if let Some(descriptor) = self.descriptor.take() {
            let descriptor = descriptor.into_inner();
            std::thread::spawn(move || drop(descriptor));
        }
    }
}

/// The directory is the one that the log is in; it need not be there yet.
pub(crate) async fn first_byte(log: Reader, directory: &Path) -> Result<Notes> {
    tokio::time::timeout(PATIENCE, wait(log, directory)).await.context("no output came")?
}

async fn wait(mut log: Reader, directory: &Path) -> Result<Notes> {
    let above = directory.parent().context("the logs have no directory")?;
    #[expect(deprecated, reason = "the descriptor is its own, and nobody else closes it")]
    let notes = AsyncFd::new(init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?)?;
    // Before it is looked for, so that it cannot appear unseen.
    add_watch(notes.get_ref(), above, WatchFlags::CREATE)?;
    let mut watched = false;
    loop {
        if !watched {
            watched = watch(notes.get_ref(), directory)?;
        }
        if log.next()?.is_some() {
            return Ok(Notes { descriptor: Some(notes) });
        }
        let mut told = notes.readable().await?;
        while rustix::io::read(notes.get_ref(), &mut [0; 4096]).is_ok() {}
        told.clear_ready();
    }
}

/// Whether there is something to watch yet.
fn watch(notes: &OwnedFd, directory: &Path) -> Result<bool> {
    match add_watch(notes, directory, WatchFlags::CREATE | WatchFlags::MODIFY) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
