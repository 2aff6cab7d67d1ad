//! Reports changes in a directory by inotify until the client disconnects.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use super::paths::{Refusal, absolute, open};
use pinfold_keeper_wire::files::{ChangeKind, FileAnswer, FileChange, PathBytes};
use pinfold_keeper_wire::send;

const WATCHED: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF);

pub(super) fn watch(path: &PathBytes, connection: &mut UnixStream) -> Result<FileAnswer, Refusal> {
    let path = absolute(path)?;
    let refusal = |error: io::Error| Refusal::of(&path, error);
    let watched = open(&path, OFlags::PATH)?;
    let events =
        inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(|error| refusal(error.into()))?;
    // Watch the resolved file by descriptor: resolving the path again could lead elsewhere.
    inotify::add_watch(&events, format!("/proc/self/fd/{}", watched.as_raw_fd()), WATCHED)
        .map_err(|error| refusal(error.into()))?;
    // An open descriptor would delay the deletion event.
    drop(watched);
    send(connection, &FileAnswer::Ready).map_err(refusal)?;
    let mut count = 0;
    loop {
        let mut sources = [
            PollFd::new(&events, PollFlags::IN),
            PollFd::new(&*connection, PollFlags::IN | PollFlags::RDHUP),
        ];
        match poll(&mut sources, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(refusal(error.into())),
        }
        let [changed, client_spoke] = sources.map(|source| !source.revents().is_empty());
        if client_spoke {
            return Ok(FileAnswer::Done { count, more: false });
        }
        if changed {
            let changes = take(&events).map_err(|error| refusal(error.into()))?;
            count += changes.len() as u64;
            let is_over = changes.iter().any(|change| change.kind == ChangeKind::Gone);
            send(connection, &FileAnswer::Changes { changes }).map_err(refusal)?;
            if is_over {
                return Ok(FileAnswer::Done { count, more: false });
            }
        }
    }
}

/// Reads the pending changes. Consecutive duplicates are merged.
fn take(events: &impl std::os::fd::AsFd) -> Result<Vec<FileChange>, Errno> {
    let mut space = [MaybeUninit::uninit(); 16 * 1024];
    let mut reader = inotify::Reader::new(events, &mut space);
    let mut changes = Vec::new();
    loop {
        match reader.next() {
            Ok(event) => {
                let name =
                    PathBytes(event.file_name().map(|name| name.to_bytes().to_vec()).unwrap_or_default());
                let change = FileChange { kind: kind(event.events()), name };
                if changes.last() != Some(&change) {
                    changes.push(change);
                }
            }
            Err(Errno::AGAIN) => return Ok(changes),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        if reader.is_buffer_empty() && !changes.is_empty() {
            return Ok(changes);
        }
    }
}

fn kind(events: ReadFlags) -> ChangeKind {
    if events.contains(ReadFlags::QUEUE_OVERFLOW) {
        ChangeKind::Missed
    } else if events
        .intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED | ReadFlags::UNMOUNT)
    {
        ChangeKind::Gone
    } else if events.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
        ChangeKind::Appeared
    } else if events.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM) {
        ChangeKind::Vanished
    } else {
        ChangeKind::Changed
    }
}
