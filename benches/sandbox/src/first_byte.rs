//! Waits for a command's first byte of output without polling, by inotify on its log.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use pinfold_provider::OutputReader;
use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

const TIMEOUT: Duration = Duration::from_secs(60);

/// An inotify instance. Closing it takes the kernel milliseconds, so a separate thread does it.
pub(crate) struct LogWatch {
    descriptor: Option<AsyncFd<OwnedFd>>,
}

impl Drop for LogWatch {
    fn drop(&mut self) {
        if let Some(descriptor) = self.descriptor.take() {
            let descriptor = descriptor.into_inner();
            std::thread::spawn(move || drop(descriptor));
        }
    }
}

/// `directory` contains the log, and need not exist yet.
pub(crate) async fn first_byte(log: Box<dyn OutputReader>, directory: &Path) -> Result<LogWatch> {
    tokio::time::timeout(TIMEOUT, wait(log, directory)).await.context("no output came")?
}

async fn wait(mut log: Box<dyn OutputReader>, directory: &Path) -> Result<LogWatch> {
    let above = directory.parent().context("the logs have no directory")?;
    #[expect(deprecated, reason = "the descriptor is owned here and closed only here")]
    let notes = AsyncFd::new(init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?)?;
    // Watches before it checks, so that no event is missed.
    add_watch(notes.get_ref(), above, WatchFlags::CREATE)?;
    let mut watched = false;
    loop {
        if !watched {
            watched = watch(notes.get_ref(), directory)?;
        }
        if log.next()?.is_some() {
            return Ok(LogWatch { descriptor: Some(notes) });
        }
        let mut told = notes.readable().await?;
        while rustix::io::read(notes.get_ref(), &mut [0; 4096]).is_ok() {}
        told.clear_ready();
    }
}

/// Whether the directory exists and is watched.
fn watch(notes: &OwnedFd, directory: &Path) -> Result<bool> {
    match add_watch(notes, directory, WatchFlags::CREATE | WatchFlags::MODIFY) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
