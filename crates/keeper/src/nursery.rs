//! A small process with one thread that gives birth to keepers. A control plane has many threads and much memory,
//! and neither goes well with making namespaces: it asks the nursery instead, over its standard input.

use std::fs::{self, File};
use std::io::{self, IoSlice, IoSliceMut, PipeReader, PipeWriter, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use rustix::process::geteuid;
use rustix::thread::{
    CapabilitySet, CapabilitySets, Uid, capabilities, set_capabilities, set_thread_res_uid,
};

use crate::keeper::{self, Inheritance, WorkDescriptors};
use crate::kernel::{self, Cloned};
use crate::precedence;
use crate::process;
use crate::wire::{Birth, Born, IdMap};
use crate::world::{Gathered, Views, WorldError};

const LONGEST_BIRTH: usize = 64 * 1024;
/// Descriptors that come with one request, at the most.
const DESCRIPTORS: usize = 32;

/// Gives birth until the other side is gone. Keepers live on.
pub fn run() -> io::Result<()> {
    precedence::take_apart();
    #[cfg(feature = "weakened")]
    if std::env::args_os().all(|argument| argument != crate::weakness::UNSEALED) {
        crate::sealed::become_a_sealed_copy();
    }
    #[cfg(not(feature = "weakened"))]
    crate::sealed::become_a_sealed_copy();
    kernel::close_from(3)?;
    kernel::forget_children();
    let socket = kernel::inherited(0)?;
    let mut lifeline = Lifeline::new()?;
    loop {
        let (text, descriptors) = match receive(&socket, LONGEST_BIRTH) {
            Ok(Some(request)) => request,
            // Also one that was killed before it had read an answer.
            Ok(None) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
            Err(error) => return Err(error),
        };
        let born = match serde_json::from_slice::<Birth>(&text) {
            Ok(birth) => give_birth(birth, descriptors),
            Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        };
        match born {
            Ok(Delivered::Child(newborn)) => {
                // A keeper that held the nursery's own socket would keep its end from being noticed.
                drop(socket);
                newborn.live(lifeline.hear()?);
                kernel::vanish(1)
            }
            Ok(Delivered::Parent { pid, pidfd }) => send(&socket, &Born::Pid(pid), Some(&pidfd))?,
            Err(error) => send(&socket, &Born::Failed(error.to_string()), None)?,
        }
    }
}

/// The two sides of a birth.
enum Delivered {
    Child(Box<Newborn>),
    Parent { pid: i32, pidfd: OwnedFd },
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
fn give_birth(birth: Birth, mut descriptors: Vec<OwnedFd>) -> io::Result<Delivered> {
    let (mapped_here, mut map_there) = io::pipe()?;
    let namespaces = libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS;
    #[cfg(feature = "weakened")]
    let namespaces = crate::weakness::without(&birth.weaknesses, namespaces);
    let cradle = if birth.born_into { Some(take_cradle(&mut descriptors)?) } else { None };
    let privileged = geteuid().is_root();
    let gathered =
        if privileged { Some(birth.world.gather(birth.ids).map_err(io::Error::other)?) } else { None };
    // The kernel counts what a namespace uses against whoever made it: that is to be the sandbox itself.
    if privileged {
        act_as(birth.ids.uid)?;
    }
    let cloned = kernel::clone_into(namespaces, cradle.as_ref().map(AsRawFd::as_raw_fd));
    if privileged && !matches!(cloned, Ok(Cloned::Child)) {
        act_as(0)?;
    }
    match cloned? {
        Cloned::Child => {
            Ok(Delivered::Child(Box::new(Newborn { birth, descriptors, gathered, mapped: mapped_here })))
        }
        Cloned::Parent { pid, pidfd } => {
            map_ids(pid, birth.ids)?;
            if let Some(gathered) = &gathered {
                birth.world.map_ids(gathered, pid, birth.ids).map_err(io::Error::other)?;
            }
            // Before it may do anything: a keeper that is not written down ends when this process does.
            write_down(pid, &descriptors)?;
            map_there.write_all(&[1])?;
            Ok(Delivered::Parent { pid, pidfd })
        }
    }
}

/// Another effective id, with every right that this process has.
fn act_as(uid: u32) -> io::Result<()> {
    let held = capabilities(None)?.permitted;
    set_thread_res_uid(None, Some(Uid::from_raw(uid)), None)?;
    let sets = CapabilitySets { effective: held, permitted: held, inheritable: CapabilitySet::empty() };
    Ok(set_capabilities(None, sets)?)
}

/// Descriptors that every keeper has: its socket, its output and what it holds locked.
const OWN: usize = 3;

/// The directory of the group that the keeper is born into comes after those that every keeper has.
fn take_cradle(descriptors: &mut Vec<OwnedFd>) -> io::Result<OwnedFd> {
    if descriptors.len() > OWN {
        Ok(descriptors.remove(OWN))
    } else {
        Err(io::ErrorKind::InvalidInput.into())
    }
}

fn write_down(pid: i32, descriptors: &[OwnedFd]) -> io::Result<()> {
    let held = descriptors.get(OWN - 1).ok_or(io::ErrorKind::InvalidInput)?;
    let began = process::began(pid)?.ok_or(io::ErrorKind::NotFound)?;
    File::from(held.try_clone()?).write_all(format!("{pid} {began}").as_bytes())
}

/// They are the nursery's: its socket, and whatever its caller hears of it by.
fn let_go_of_standard_streams() -> io::Result<()> {
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    (0..3).try_for_each(|stream| kernel::duplicate_as(&nothing, stream))?;
    if nothing.as_raw_fd() < 3 {
        // It took a place that was free, and stays there.
        let _ = nothing.into_raw_fd();
    }
    Ok(())
}

pub(crate) fn map_ids(pid: i32, ids: IdMap) -> io::Result<()> {
    if ids.count == 1 {
        // Without privilege only one id can be mapped, and only by giving up on groups.
        fs::write(format!("/proc/{pid}/setgroups"), "deny")?;
    }
    fs::write(format!("/proc/{pid}/uid_map"), format!("0 {} {}", ids.uid, ids.count))?;
    fs::write(format!("/proc/{pid}/gid_map"), format!("0 {} {}", ids.gid, ids.count))
}

/// What becomes the keeper of a sandbox.
struct Newborn {
    birth: Birth,
    descriptors: Vec<OwnedFd>,
    gathered: Option<Gathered>,
    /// Says one byte when the ids inside stand for something.
    mapped: PipeReader,
}

impl Newborn {
    fn live(mut self, lifeline: OwnedFd) {
        // The nursery forgets its children; a keeper must not.
        kernel::reset_signals();
        let groups = self.birth.keeper_groups + self.birth.work_groups;
        let expected = groups + self.birth.work.count() + OWN;
        if self.mapped.read_exact(&mut [0]).is_err() || self.descriptors.len() != expected {
            return;
        }
        if let_go_of_standard_streams().is_err() {
            return;
        }
        let work = self.descriptors.split_off(OWN + groups);
        let work_groups = self.descriptors.split_off(OWN + self.birth.keeper_groups);
        let keeper_groups = self.descriptors.split_off(OWN);
        // Never let go of: the lock on it ends with this process.
        let _held = self.descriptors.pop();
        let (Some(output), Some(listener)) = (self.descriptors.pop(), self.descriptors.pop()) else { return };
        let built = settle_in(&self.birth, &keeper_groups, self.gathered);
        drop(keeper_groups);
        let inheritance = Inheritance {
            listener: listener.into(),
            output,
            work_groups,
            work: WorkDescriptors::of(self.birth.work, work),
            limits: self.birth.limits,
            shared: self.birth.world.shared,
            secret: self.birth.secret,
            left_ms: self.birth.left_ms,
            caller: self.birth.ends_with_caller.then_some(lifeline),
            built,
        };
        // Whoever waits for this keeper sees it go; there is nobody to tell why.
        let _ = keeper::run(inheritance);
    }
}

fn settle_in(birth: &Birth, keeper_groups: &[OwnedFd], gathered: Option<Gathered>) -> Result<(), String> {
    let join = || -> io::Result<()> {
        for group in keeper_groups {
            File::from(group.try_clone()?).write_all(b"0")?;
        }
        Ok(())
    };
    join().map_err(|error| format!("could not join its groups: {error}"))?;
    #[cfg(feature = "weakened")]
    {
        crate::weakness::take_out(birth.weaknesses.clone());
        crate::weakness::gather().map_err(|error| error.to_string())?;
    }
    let said = |error: WorldError| error.to_string();
    let views = Views::make().map_err(said)?;
    let gathered = gathered.map_or_else(|| birth.world.gather(birth.ids), Ok).map_err(said)?;
    kernel::become_user(0, 0).map_err(|error| format!("could not take its place: {error}"))?;
    birth.world.build(gathered, views).map_err(said)?;
    #[cfg(feature = "weakened")]
    crate::weakness::undo().map_err(|error| format!("could not take guards out: {error}"))?;
    Ok(())
}

/// What has arrived with descriptors, up to this length. None: the other side is gone.
pub(crate) fn receive(socket: &impl AsFd, longest: usize) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
    let mut text = vec![0; longest];
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
    let (text, mut descriptors) = receive(socket, LONGEST_BIRTH)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok((serde_json::from_slice(&text)?, descriptors.pop()))
}
