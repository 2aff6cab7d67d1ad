//! Starts an instance: control directory, a keeper that waits, the permit, and only then the `Confirm` request.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pinfold_confine::IdMap;
use pinfold_keeper_wire::{InstanceLimits, Request, Response, SpawnRequest, WorkloadCgroup};
use pinfold_keeper_wire::{RootFilesystem, SandboxSetup, Storage};
use pinfold_lifecycle::{Spec, Timestamp};
use pinfold_provider::{StartError, StartRequest};
use rustix::fs::{Mode, fchmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};
use rustix::process::{Signal, pidfd_send_signal};

use crate::blocking::run_blocking;
use crate::cgroup::{CgroupLimits, Cgroups, InstanceCgroup, JoinError};
use crate::cgroup_record;
use crate::control::{query, unexpected};
use crate::disk::DiskPlan;
use crate::host_image::{HOST_IMAGE, Image};
use crate::id_ranges::IdRanges;
use crate::paths::{DataPaths, InstancePaths, make_directory};
use crate::pid_lock::{self, LaunchLock, lock_for_keeper};
use crate::provider::LinuxProvider;
use crate::spawner::SpawnerPool;

/// Connections to a keeper that wait to be accepted; the kernel lowers it to its own limit.
const BACKLOG: i32 = 4096;

/// A spawned keeper that has not been confirmed. Dropping it kills it.
struct SpawnedKeeper {
    pid: i32,
    /// `None`: confirmed.
    pidfd: Option<OwnedFd>,
}

impl Drop for SpawnedKeeper {
    fn drop(&mut self) {
        if let Some(pidfd) = &self.pidfd {
            let _ = pidfd_send_signal(pidfd, Signal::KILL);
        }
    }
}

impl LinuxProvider {
    pub(crate) async fn start_instance(&self, start: StartRequest<'_>) -> Result<(), StartError> {
        let paths = self.data_paths.of(start.instance);
        let in_flight = self.launches_in_flight.begin(start.instance.sandbox);
        if self.keeper_answers(&paths).await {
            return Ok(());
        }
        let failed =
            |doing: &str, why: &dyn std::fmt::Display| StartError::Failed { why: format!("{doing}: {why}") };
        let left_ms = start.ends_at.ms_since(self.now());
        let is_new = make_directory(&paths.control, 0o700)
            .map_err(|error| failed("could not create the control directory", &error))?;
        let _launch_lock = LaunchLock::acquire(&paths)
            .await
            .map_err(|error| failed("could not take the launch lock", &error))?;
        if self.keeper_answers(&paths).await {
            return Ok(());
        }
        if pid_lock::keeper_status(&paths).map_err(|error| failed("could not read the pid file", &error))?
            != pid_lock::KeeperStatus::Absent
        {
            // Left by a launch that died: that keeper will never be confirmed.
            let failed_launch = self.teardown(paths.clone());
            let cleared = run_blocking(move || failed_launch.clear_failed_launch()).await;
            cleared.map_err(|error| failed("could not remove the failed launch", &error))?;
        }
        let launch = self.launch(&paths, &start, left_ms, is_new);
        let launch = launch.map_err(|error| failed("could not open the image", &error))?;
        // The spawn continues even if the caller has given up, so the launch stays in flight until it ends.
        let still_in_flight = in_flight.clone();
        let spawned = run_blocking(move || (launch.spawn(), still_in_flight).0).await;
        let mut keeper = spawned.map_err(|error| failed("could not spawn the keeper", &error))?;
        if !start.permit.still_wanted().await {
            drop(keeper);
            // What cannot be removed now is found later by its control directory.
            let teardown = self.teardown(paths);
            let _ = run_blocking(move || (teardown.end(), in_flight).0).await;
            return Err(StartError::NoLongerWanted);
        }
        match query(&paths, &Request::Confirm).await {
            Ok(Response::Done) => {}
            Ok(Response::Refused { why, .. }) => return Err(failed("could not set up the sandbox", &why)),
            Ok(other) => return Err(failed("could not confirm the launch", &unexpected(&other))),
            // A concurrent stop has removed the control directory.
            Err(error) => return Err(failed("could not confirm the launch", &error)),
        }
        if let Some(pidfd) = keeper.pidfd.take() {
            self.keepers.watch(start.instance, keeper.pid, pidfd);
        }
        Ok(())
    }

    /// Collects everything the blocking part of a launch needs, so that it runs off the async runtime.
    fn launch(
        &self,
        paths: &InstancePaths,
        start: &StartRequest<'_>,
        left_ms: u64,
        is_new: bool,
    ) -> io::Result<Launch> {
        Ok(Launch {
            paths: paths.clone(),
            data_paths: self.data_paths.clone(),
            ids: self.ids.clone(),
            cgroups: self.cgroups.clone(),
            image: self.image(start.spec.image.as_deref())?,
            disk: self.disk.plan(&start.spec.limits),
            spawners: Arc::clone(&self.spawners),
            spec: start.spec.clone(),
            left_ms,
            is_new,
            ends_with_caller: start.ends_with_caller,
            #[cfg(feature = "weakened")]
            disabled_guards: self.disabled_guards.clone(),
        })
    }

    fn image(&self, name: Option<&str>) -> io::Result<Image> {
        match name {
            None | Some(HOST_IMAGE) => Ok(self.host.clone()),
            Some(name) => (self.find_layers)(name).map(Image::of_layers),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }
}

struct Launch {
    paths: InstancePaths,
    data_paths: DataPaths,
    ids: IdRanges,
    cgroups: Cgroups,
    image: Image,
    disk: DiskPlan,
    spawners: Arc<SpawnerPool>,
    spec: Spec,
    left_ms: u64,
    /// No earlier launch of this generation left anything.
    is_new: bool,
    ends_with_caller: bool,
    #[cfg(feature = "weakened")]
    disabled_guards: Vec<pinfold_keeper_wire::DisabledGuard>,
}

impl Launch {
    /// Prepares files and cgroups and spawns the waiting keeper. What a crash leaves can be found by the control
    /// directory.
    fn spawn(&self) -> io::Result<SpawnedKeeper> {
        let paths = &self.paths;
        let held = lock_for_keeper(paths)?.into();
        let ids = self.ids.take(paths).map_err(io::Error::other)?;
        let secret = fresh_secret()?;
        pinfold_private_files::write(&paths.secret(), &secret)?;
        let storage = self.disk.prepare(&self.data_paths, paths, ids)?;
        make_owned_directory(&paths.logs, ids)?;
        let listener = listen(paths)?;
        let output: OwnedFd = File::open(&paths.logs)?.into();
        let limits = group_limits(&self.cgroups, &self.spec);
        cgroup_record::record(&self.cgroups, paths, &limits, !self.is_new)?;
        let groups = CgroupDescriptors::make(&self.cgroups, &paths.name, &limits, ids)?;
        let request = SpawnRequest {
            setup: self.sandbox_setup(storage),
            secret,
            ids,
            starts_in_cgroup: groups.clone_into.is_some(),
            keeper_cgroups: groups.keeper_join_files.len(),
            workload_cgroups: groups.work_join_files.len(),
            workload: groups.work_group(),
            limits: self.limits(),
            lifetime_ms: self.left_ms,
            ends_with_caller: self.ends_with_caller,
            #[cfg(feature = "weakened")]
            disabled_guards: self.disabled_guards.clone(),
        };
        let mut descriptors = vec![&listener, &output, &held];
        descriptors
            .extend(groups.clone_into.iter().chain(&groups.keeper_join_files).chain(&groups.work_join_files));
        descriptors.extend(groups.work.iter().chain(&groups.memory_events).chain(&groups.process_events));
        let (pid, pidfd) = self.spawners.spawn_keeper(&request, &descriptors)?;
        Ok(SpawnedKeeper { pid, pidfd: Some(pidfd) })
    }

    fn limits(&self) -> InstanceLimits {
        let limits = limits_of(&self.spec);
        #[cfg(feature = "weakened")]
        if self.disabled_guards.contains(&pinfold_keeper_wire::DisabledGuard::UnlimitedOutput) {
            return InstanceLimits { output_bytes: u64::MAX, ..limits };
        }
        limits
    }

    fn sandbox_setup(&self, storage: Storage) -> SandboxSetup {
        SandboxSetup {
            hostname: self.paths.name.split('.').nth(1).unwrap_or("sandbox").to_owned(),
            root: RootFilesystem { layers: self.image.layers.clone(), storage },
            shared: self.shared(),
        }
    }

    fn shared(&self) -> Vec<PathBuf> {
        #[cfg(feature = "weakened")]
        let more = self.disabled_guards.iter().filter_map(|guard| match guard {
            pinfold_keeper_wire::DisabledGuard::Share(path) => Some(path.clone()),
            _ => None,
        });
        #[cfg(not(feature = "weakened"))]
        let more = None;
        self.image.shared.iter().cloned().chain(more).collect()
    }
}

/// Limits that the keeper enforces itself.
fn limits_of(spec: &Spec) -> InstanceLimits {
    let output_mb = spec.limits.output_mb.unwrap_or(DEFAULT_OUTPUT_MB);
    InstanceLimits {
        cpu_time_ms: spec.limits.cpu_time_ms,
        output_bytes: output_mb.saturating_mul(1 << 20),
        open_files: spec.limits.open_files,
        operations: spec.limits.operations,
    }
}

/// Default output limit of one execution.
const DEFAULT_OUTPUT_MB: u64 = 64;

fn group_limits(cgroups: &Cgroups, spec: &Spec) -> CgroupLimits {
    CgroupLimits {
        memory_bytes: spec.limits.memory_mb.map(|mb| mb.saturating_mul(1 << 20)),
        processes: spec.limits.processes,
        cpu_millis: spec.limits.cpu_millis,
        cpu_weight: None,
        count_io: cgroups.counts_io_cheaply(),
    }
}

/// The cgroups of an instance, as descriptors for its keeper.
#[derive(Default)]
struct CgroupDescriptors {
    clone_into: Option<OwnedFd>,
    keeper_join_files: Vec<OwnedFd>,
    /// The v1 cgroups, which a process cannot be cloned into.
    work_join_files: Vec<OwnedFd>,
    work: Option<OwnedFd>,
    memory_events: Option<OwnedFd>,
    process_events: Option<OwnedFd>,
}

impl CgroupDescriptors {
    /// Without the right to create cgroups there are none, and all processes end with the keeper alone.
    fn make(cgroups: &Cgroups, name: &str, limits: &CgroupLimits, ids: IdMap) -> io::Result<Self> {
        if !cgroups.abilities().kill.is_enforced() {
            return Ok(Self::default());
        }
        let group = cgroups.make(name, limits).map_err(io::Error::other)?;
        group.delegate_to(ids.uid, ids.gid).map_err(io::Error::other)?;
        Self::open(&group).map_err(io::Error::other)
    }

    fn open(group: &InstanceCgroup) -> Result<Self, JoinError> {
        Ok(Self {
            clone_into: group.keeper_directory()?,
            keeper_join_files: group.v1_keeper_join_files()?,
            work_join_files: group.v1_work_join_files()?,
            work: group.work_directory()?,
            memory_events: group.memory_events()?,
            process_events: group.process_events()?,
        })
    }

    fn work_group(&self) -> WorkloadCgroup {
        WorkloadCgroup {
            directory: self.work.is_some(),
            memory_events: self.memory_events.is_some(),
            process_events: self.process_events.is_some(),
        }
    }
}

/// Creates a directory owned by root of the sandbox.
fn make_owned_directory(path: &Path, ids: IdMap) -> io::Result<()> {
    make_directory(path, 0o700)?;
    chown(path, Some(ids.uid), Some(ids.gid))
}

/// Binds the control socket. A socket left by an earlier launch is stale and removed.
fn listen(paths: &InstancePaths) -> io::Result<OwnedFd> {
    match fs::remove_file(paths.socket()) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let address = SocketAddrUnix::new(paths.socket())?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // The file gets the mode that the socket has when it is bound.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

fn fresh_secret() -> io::Result<String> {
    let mut bytes = [0; 32];
    // The kernel returns so few bytes in one call.
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
