//! Messages of the spawner: one JSON message per packet (SOCK_SEQPACKET), with file descriptors.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use pinfold_confine::IdMap;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

use crate::setup::SandboxSetup;

/// Maximum length of a packet.
pub const MAX_PACKET_BYTES: usize = 64 * 1024;
/// Maximum number of descriptors in one packet.
const DESCRIPTORS: usize = 32;

/// Asks the spawner for a new keeper. File descriptors come with it, in this order: the control socket to listen on, the
/// directory for output, the locked pid file, the cgroups to join, and those that [`WorkloadCgroup`] names.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SpawnRequest {
    pub setup: SandboxSetup,
    pub secret: String,
    pub ids: IdMap,
    /// The first cgroup descriptor is the directory of the cgroup v2 in which the keeper starts.
    pub starts_in_cgroup: bool,
    /// How many cgroup descriptors are for the keeper to join, and how many for its executions.
    pub keeper_cgroups: usize,
    pub workload_cgroups: usize,
    pub workload: WorkloadCgroup,
    pub limits: InstanceLimits,
    pub lifetime_ms: u64,
    /// The sandbox ends when the control plane process exits.
    pub ends_with_caller: bool,
    /// Guards that are disabled in this sandbox.
    #[cfg(feature = "weakened")]
    pub disabled_guards: Vec<crate::DisabledGuard>,
}

/// Which descriptors of the cgroup of all executions come last, in this order. Without them the keeper tracks processes
/// by cgroup namespace, and limit hits are not seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WorkloadCgroup {
    /// Its cgroup v2 directory, in which the keeper creates a cgroup per execution.
    pub directory: bool,
    /// The file that counts OOM kills.
    pub memory_events: bool,
    /// The file that counts forks refused by the process limit.
    pub process_events: bool,
}

impl WorkloadCgroup {
    #[must_use]
    pub fn count(self) -> usize {
        usize::from(self.directory) + usize::from(self.memory_events) + usize::from(self.process_events)
    }
}

/// Limits that the keeper itself enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceLimits {
    /// CPU time of one execution with all its processes.
    pub cpu_time_ms: Option<u64>,
    /// Output of one execution; the keeper reads no more than this.
    pub output_bytes: u64,
    /// Open files of one process. None: the default.
    pub open_files: Option<u64>,
    /// Operations of the whole instance, as counted by [`crate::Response::Activity`]. Absent from earlier control planes.
    pub operations: Option<u64>,
}

/// The spawner's answer. The keeper's pidfd comes with `Pid`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpawnResponse {
    Pid(i32),
    Failed(String),
}

/// Receives one message with descriptors, up to this length. None: the other side closed the socket.
pub fn receive_packet(socket: &impl AsFd, longest: usize) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
    let mut text = vec![0; longest];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    // Receive the message and its descriptors (recvmsg), with close-on-exec.
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

/// Sends one message with descriptors, to the spawner or from it.
pub fn send_with(socket: &impl AsFd, text: &[u8], descriptors: &[&OwnedFd]) -> io::Result<()> {
    let borrowed: Vec<_> = descriptors.iter().map(|descriptor| descriptor.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !borrowed.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(&borrowed)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // Send the message and its descriptors (sendmsg).
    sendmsg(socket, &[IoSlice::new(text)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives the spawner's response, and the pidfd if there is one.
pub fn receive_response(socket: &impl AsFd) -> io::Result<(SpawnResponse, Option<OwnedFd>)> {
    let (text, mut descriptors) =
        receive_packet(socket, MAX_PACKET_BYTES)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok((serde_json::from_slice(&text)?, descriptors.pop()))
}
