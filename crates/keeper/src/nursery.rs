//! A small process with one thread that gives birth to keepers. A control plane has many threads and much memory,
//! and neither goes well with making namespaces: it asks the nursery instead, over its standard input.

use std::fs::{self, File};
use std::io::{self, IoSlice, IoSliceMut, PipeReader, PipeWriter, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use crate::keeper::{self, Inheritance};
use crate::kernel::{self, Cloned};
use crate::wire::{Birth, Born, IdMap};

const LONGEST_BIRTH: usize = 64 * 1024;
/// Descriptors that come with one request, at the most.
const DESCRIPTORS: usize = 32;

/// Gives birth until the other side is gone. Keepers live on.
pub fn run() -> io::Result<()> {
    kernel::close_from(3)?;
    kernel::forget_children();
    let socket = kernel::inherited(0)?;
    let mut lifeline = Lifeline::new()?;
    loop {
        let (text, mut descriptors) = match receive(&socket)? {
            Some(request) => request,
            None => return Ok(()),
        };
        let born = match serde_json::from_slice::<Birth>(&text) {
            Ok(birth) => give_birth(birth, &mut descriptors, &mut lifeline),
            Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        };
        match born {
            Ok((pid, pidfd)) => send(&socket, &Born::Pid(pid), Some(&pidfd))?,
            Err(error) => send(&socket, &Born::Failed(error.to_string()), None)?,
        }
    }
}

/// A pipe that nobody ever writes to. Its other end closes when the nursery ends, and that when its caller does.
struct Lifeline {
    here: Option<PipeWriter>,
    there: PipeReader,
}

impl Lifeline {
    fn new() -> io::Result<Self> {
        let (there, here) = io::pipe()?;
        Ok(Self { here: Some(here), there })
    }

    /// In a child: only the end that hears of the nursery's.
    fn hear(&mut self) -> io::Result<OwnedFd> {
        self.here = None;
        Ok(self.there.try_clone()?.into())
    }
}

/// A control group is joined by v1 rules behind a barrier; the v2 one by being born into it.
fn give_birth(
    birth: Birth,
    descriptors: &mut Vec<OwnedFd>,
    lifeline: &mut Lifeline,
) -> io::Result<(i32, OwnedFd)> {
    let nothing = File::open("/dev/null")?;
    let (mut mapped_here, mut map_there) = io::pipe()?;
    let namespaces = libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS;
    #[cfg(feature = "weakened")]
    let namespaces = crate::weakness::without(&birth.weaknesses, namespaces);
    let cradle = if birth.born_into { Some(take_cradle(descriptors)?) } else { None };
    // A sandbox that takes all there is of inotify or the like takes it from its own user, not from root.
    kernel::make_namespaces_for(birth.ids.uid)?;
    let cloned = kernel::clone_into(namespaces, cradle.as_ref().map(AsRawFd::as_raw_fd));
    if !matches!(cloned, Ok(Cloned::Child)) {
        kernel::make_namespaces_for(0)?;
    }
    match cloned? {
        Cloned::Child => {
            drop(map_there);
            // The nursery forgets its children; a keeper must not.
            kernel::reset_signals();
            // What the nursery is asked, secrets of other sandboxes among it, is not for a keeper to hear.
            let alone = kernel::duplicate_as(&nothing, 0);
            drop(nothing);
            let mapped = mapped_here.read_exact(&mut [0]);
            if let (Ok(()), Ok(()), Ok(lifeline)) = (alone, mapped, lifeline.hear()) {
                live(birth, std::mem::take(descriptors), lifeline);
            }
            kernel::vanish(1)
        }
        Cloned::Parent { pid, pidfd } => {
            map_ids(pid, birth.ids)?;
            map_there.write_all(&[1])?;
            Ok((pid, pidfd))
        }
    }
}

/// The directory of the group that the keeper is born into comes after the two that every keeper has.
fn take_cradle(descriptors: &mut Vec<OwnedFd>) -> io::Result<OwnedFd> {
    if descriptors.len() > 2 { Ok(descriptors.remove(2)) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

fn map_ids(pid: i32, ids: IdMap) -> io::Result<()> {
    if ids.count == 1 {
        // Without privilege only one id can be mapped, and only by giving up on groups.
        fs::write(format!("/proc/{pid}/setgroups"), "deny")?;
    }
    fs::write(format!("/proc/{pid}/uid_map"), format!("0 {} {}", ids.uid, ids.count))?;
    fs::write(format!("/proc/{pid}/gid_map"), format!("0 {} {}", ids.gid, ids.count))
}

/// From here on this process is the keeper of a sandbox.
fn live(birth: Birth, mut descriptors: Vec<OwnedFd>, lifeline: OwnedFd) {
    let groups = birth.keeper_groups + birth.work_groups;
    if descriptors.len() != groups + 2 {
        return;
    }
    let work_groups = descriptors.split_off(2 + birth.keeper_groups);
    let keeper_groups = descriptors.split_off(2);
    let (Some(output), Some(listener)) = (descriptors.pop(), descriptors.pop()) else { return };
    let built = settle_in(&birth, &keeper_groups);
    drop(keeper_groups);
    let inheritance = Inheritance {
        listener: listener.into(),
        output,
        work_groups,
        secret: birth.secret,
        left_ms: birth.left_ms,
        caller: birth.ends_with_caller.then_some(lifeline),
        built,
    };
    // Whoever waits for this keeper sees it go; there is nobody to tell why.
    let _ = keeper::run(inheritance);
}

fn settle_in(birth: &Birth, keeper_groups: &[OwnedFd]) -> Result<(), String> {
    let join = || -> io::Result<()> {
        for group in keeper_groups {
            File::from(group.try_clone()?).write_all(b"0")?;
        }
        Ok(())
    };
    let step_down = || -> io::Result<()> {
        kernel::become_user(0, 0)?;
        kernel::leave_groups_behind()
    };
    join().map_err(|error| format!("could not join its groups: {error}"))?;
    #[cfg(feature = "weakened")]
    {
        crate::weakness::take_out(birth.weaknesses.clone());
        crate::weakness::gather().map_err(|error| error.to_string())?;
    }
    let gathered = birth.world.gather().map_err(|error| error.to_string())?;
    step_down().map_err(|error| format!("could not take its place: {error}"))?;
    birth.world.build(gathered).map_err(|error| error.to_string())?;
    #[cfg(feature = "weakened")]
    crate::weakness::undo().map_err(|error| format!("could not take guards out: {error}"))?;
    Ok(())
}

fn receive(socket: &impl AsFd) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
    let mut text = vec![0; LONGEST_BIRTH];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received =
        recvmsg(socket, &mut [IoSliceMut::new(&mut text)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    if received.bytes == 0 {
        return Ok(None);
    }
    text.truncate(received.bytes);
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    Ok(Some((text, descriptors)))
}

fn send(socket: &impl AsFd, born: &Born, pidfd: Option<&OwnedFd>) -> io::Result<()> {
    let text = serde_json::to_vec(born)?;
    send_with(socket, &text, &pidfd.into_iter().collect::<Vec<_>>())
}

/// One message with descriptors, to the nursery or from it.
pub fn send_with(socket: &impl AsFd, text: &[u8], descriptors: &[&OwnedFd]) -> io::Result<()> {
    let borrowed: Vec<_> = descriptors.iter().map(|descriptor| descriptor.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !borrowed.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(&borrowed)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(socket, &[IoSlice::new(text)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// What the nursery answered, and the pidfd if there is one.
pub fn receive_born(socket: &impl AsFd) -> io::Result<(Born, Option<OwnedFd>)> {
    let (text, mut descriptors) = receive(socket)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok((serde_json::from_slice(&text)?, descriptors.pop()))
}
