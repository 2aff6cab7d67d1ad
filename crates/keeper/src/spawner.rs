//! The spawner: a small single-threaded process that creates keepers (a fork server). The control plane has many threads
//! and much memory, which makes cloning into namespaces slow and unsafe, so it sends spawn requests over the spawner's
//! standard input instead.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};

use pinfold_confine::map_ids;
use pinfold_confine::mounts::MountError;
use pinfold_confine::syscalls::{Cloned, clone_process, close_from, exit_now, set_ids};
use rustix::process::geteuid;
use rustix::thread::{
    CapabilitySet, CapabilitySets, Uid, capabilities, set_capabilities, set_thread_res_uid,
};

use crate::keeper::{self, KeeperInit, WorkloadDescriptors};
use crate::priority;
use crate::sandbox_setup::{DetachedMounts, KernelMounts, build, map_layer_ids, open_mounts};
use crate::syscalls;
use pinfold_keeper_wire::{MAX_PACKET_BYTES, SpawnRequest, SpawnResponse, receive_packet, send_with};

/// Serves spawn requests until the control plane closes the socket. Keepers outlive the spawner.
pub fn run() -> io::Result<()> {
    priority::raise_in_new_session();
    #[cfg(feature = "weakened")]
    if std::env::args_os().all(|argument| argument != pinfold_keeper_wire::UNSEALED) {
        crate::sealed_exe::reexec_sealed();
    }
    #[cfg(not(feature = "weakened"))]
    crate::sealed_exe::reexec_sealed();
    close_from(3)?;
    syscalls::ignore_child_exits();
    let socket = syscalls::take_inherited(0)?;
    let mut exit_pipe = ExitPipe::new()?;
    loop {
        let (text, descriptors) = match receive_packet(&socket, MAX_PACKET_BYTES) {
            Ok(Some(request)) => request,
            // The control plane closed the socket, or was killed with a response unread (ECONNRESET).
            Ok(None) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
            Err(error) => return Err(error),
        };
        let spawned = match serde_json::from_slice::<SpawnRequest>(&text) {
            Ok(request) => spawn(request, descriptors),
            Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        };
        match spawned {
            Ok(Spawned::Child(child)) => {
                // Close the spawner's socket: a keeper that held it would hide the spawner's exit.
                drop(socket);
                child.run(exit_pipe.take_reader()?);
                exit_now(1)
            }
            Ok(Spawned::Parent { pid, pidfd }) => send(&socket, &SpawnResponse::Pid(pid), Some(&pidfd))?,
            Err(error) => send(&socket, &SpawnResponse::Failed(error.to_string()), None)?,
        }
    }
}

/// The two sides of a spawn.
enum Spawned {
    Child(Box<NewKeeper>),
    Parent { pid: i32, pidfd: OwnedFd },
}

/// A pipe that is never written to. Its write end closes when the spawner exits, which it does when its caller exits, so
/// the read end tells keepers that the caller is gone.
struct ExitPipe {
    writer: Option<PipeWriter>,
    reader: PipeReader,
}

impl ExitPipe {
    fn new() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        Ok(Self { writer: Some(writer), reader })
    }

    /// In a child: keeps only the read end.
    fn take_reader(&mut self) -> io::Result<OwnedFd> {
        self.writer = None;
        Ok(self.reader.try_clone()?.into())
    }
}

/// Clones a keeper. The child starts inside its cgroup v2; it joins v1 cgroups by itself, after the parent has mapped its
/// ids and sent one byte over the pipe.
fn spawn(request: SpawnRequest, mut descriptors: Vec<OwnedFd>) -> io::Result<Spawned> {
    let (mapped_reader, mut mapped_writer) = io::pipe()?;
    let namespaces = libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS;
    #[cfg(feature = "weakened")]
    let namespaces = crate::disabled_guards::remove_namespaces(&request.disabled_guards, namespaces);
    let cgroup = if request.starts_in_cgroup { Some(take_start_cgroup(&mut descriptors)?) } else { None };
    let privileged = geteuid().is_root();
    let mounts = if privileged {
        Some(open_mounts(&request.setup, request.ids).map_err(io::Error::other)?)
    } else {
        None
    };
    // Namespaces are charged to the user who creates them: make that the sandbox's own uid.
    if privileged {
        set_effective_uid(request.ids.uid)?;
    }
    let cloned = clone_process(namespaces, cgroup.as_ref().map(AsRawFd::as_raw_fd));
    if privileged && !matches!(cloned, Ok(Cloned::Child)) {
        set_effective_uid(0)?;
    }
    match cloned? {
        Cloned::Child => {
            Ok(Spawned::Child(Box::new(NewKeeper { request, descriptors, mounts, mapped: mapped_reader })))
        }
        Cloned::Parent { pid, pidfd } => {
            map_ids(pid, request.ids)?;
            if let Some(mounts) = &mounts {
                map_layer_ids(&request.setup, mounts, pid, request.ids).map_err(io::Error::other)?;
            }
            // Record the pid before the keeper may run: an unrecorded keeper exits when this process does.
            record_pid(pid, &descriptors)?;
            mapped_writer.write_all(&[1])?;
            Ok(Spawned::Parent { pid, pidfd })
        }
    }
}

/// Changes the effective uid and keeps all capabilities.
fn set_effective_uid(uid: u32) -> io::Result<()> {
    let held = capabilities(None)?.permitted;
    // Change the effective uid (setresuid).
    set_thread_res_uid(None, Some(Uid::from_raw(uid)), None)?;
    let sets = CapabilitySets { effective: held, permitted: held, inheritable: CapabilitySet::empty() };
    // Raise the effective capabilities again, which the change cleared (capset).
    Ok(set_capabilities(None, sets)?)
}

/// Descriptors that every keeper gets: control socket, output directory and locked pid file.
const COMMON_DESCRIPTORS: usize = 3;

/// Takes the descriptor of the cgroup directory that the keeper starts in. It follows the common descriptors.
fn take_start_cgroup(descriptors: &mut Vec<OwnedFd>) -> io::Result<OwnedFd> {
    if descriptors.len() > COMMON_DESCRIPTORS {
        Ok(descriptors.remove(COMMON_DESCRIPTORS))
    } else {
        Err(io::ErrorKind::InvalidInput.into())
    }
}

fn record_pid(pid: i32, descriptors: &[OwnedFd]) -> io::Result<()> {
    let held = descriptors.get(COMMON_DESCRIPTORS - 1).ok_or(io::ErrorKind::InvalidInput)?;
    let began = pinfold_procfs::start_time(pid)?.ok_or(io::ErrorKind::NotFound)?;
    File::from(held.try_clone()?).write_all(format!("{pid} {began}").as_bytes())
}

/// Replaces standard input, output and error with /dev/null: they are the spawner's socket and log.
fn detach_standard_streams() -> io::Result<()> {
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    (0..3).try_for_each(|stream| syscalls::dup_to(&nothing, stream))?;
    if nothing.as_raw_fd() < 3 {
        // The open took one of the numbers 0 to 2 and must stay open.
        let _ = nothing.into_raw_fd();
    }
    Ok(())
}

/// A cloned child that becomes the keeper of a sandbox.
struct NewKeeper {
    request: SpawnRequest,
    descriptors: Vec<OwnedFd>,
    mounts: Option<DetachedMounts>,
    /// Receives one byte once the parent has mapped the ids.
    mapped: PipeReader,
}

impl NewKeeper {
    fn run(mut self, exit_pipe: OwnedFd) {
        // The spawner ignores SIGCHLD; a keeper must reap its children.
        syscalls::reset_signals();
        let groups = self.request.keeper_cgroups + self.request.workload_cgroups;
        let expected = groups + self.request.workload.count() + COMMON_DESCRIPTORS;
        if self.mapped.read_exact(&mut [0]).is_err() || self.descriptors.len() != expected {
            return;
        }
        if detach_standard_streams().is_err() {
            return;
        }
        let workload = self.descriptors.split_off(COMMON_DESCRIPTORS + groups);
        let workload_cgroups = self.descriptors.split_off(COMMON_DESCRIPTORS + self.request.keeper_cgroups);
        let keeper_cgroups = self.descriptors.split_off(COMMON_DESCRIPTORS);
        // Keep the locked pid file open: its lock must last as long as this process.
        let _pid_file = self.descriptors.pop();
        let (Some(output), Some(listener)) = (self.descriptors.pop(), self.descriptors.pop()) else { return };
        let setup_result = set_up(&self.request, &keeper_cgroups, self.mounts);
        drop(keeper_cgroups);
        let init = KeeperInit {
            listener: listener.into(),
            output,
            workload_cgroups,
            workload: WorkloadDescriptors::of(self.request.workload, workload),
            limits: self.request.limits,
            shared: self.request.setup.shared,
            secret: self.request.secret,
            lifetime_ms: self.request.lifetime_ms,
            caller: self.request.ends_with_caller.then_some(exit_pipe),
            setup_result,
        };
        // On error the keeper exits, which the control plane sees by its pidfd. No channel is left to report the cause.
        let _ = keeper::run(init);
    }
}

fn set_up(
    request: &SpawnRequest,
    keeper_cgroups: &[OwnedFd],
    mounts: Option<DetachedMounts>,
) -> Result<(), String> {
    let join = || -> io::Result<()> {
        for group in keeper_cgroups {
            // Writing 0 to cgroup.procs moves the calling process.
            File::from(group.try_clone()?).write_all(b"0")?;
        }
        Ok(())
    };
    join().map_err(|error| format!("could not join the cgroups: {error}"))?;
    #[cfg(feature = "weakened")]
    {
        crate::disabled_guards::disable(request.disabled_guards.clone());
        crate::disabled_guards::open_host_directories().map_err(|error| error.to_string())?;
    }
    let text = |error: MountError| error.to_string();
    let kernel_mounts = KernelMounts::make().map_err(text)?;
    let mounts = mounts.map_or_else(|| open_mounts(&request.setup, request.ids), Ok).map_err(text)?;
    set_ids(0, 0).map_err(|error| format!("could not switch to uid 0 of the sandbox: {error}"))?;
    build(&request.setup, mounts, kernel_mounts).map_err(text)?;
    #[cfg(feature = "weakened")]
    crate::disabled_guards::undo_mounts().map_err(|error| format!("could not disable guards: {error}"))?;
    Ok(())
}

fn send(socket: &impl AsFd, spawned: &SpawnResponse, pidfd: Option<&OwnedFd>) -> io::Result<()> {
    let text = serde_json::to_vec(spawned)?;
    send_with(socket, &text, &pidfd.into_iter().collect::<Vec<_>>())
}
