//! Waiting for a command's first byte of output without polling: the kernel tells of every change to its log.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use pinfold_keeper::log::Reader;
use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn first_byte(log: &Path) -> Result<()> {
    tokio::time::timeout(PATIENCE, wait(log)).await.context("no output came")?
}

async fn wait(log: &Path) -> Result<()> {
    let directory = log.parent().context("the log has no directory")?;
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
        if has_output(log)? {
            return Ok(());
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

fn has_output(log: &Path) -> Result<bool> {
    match File::open(log) {
        Ok(file) => Ok(Reader::new(file).piece()?.is_some()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}
