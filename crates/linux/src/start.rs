//! How a body comes into being: its mark, a keeper that waits, the permit, and only then the word to go.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::chown;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

use pinfold_keeper::wire::{Birth, BodyLimits, IdMap, Request, Response, WorkGroup};
use pinfold_keeper::world::{Root, Storage, World};
use pinfold_lifecycle::{Spec, Timestamp};
use pinfold_provider::{Start, StartError};
use rustix::process::{Signal, pidfd_send_signal};

use crate::aside::aside;
use crate::cgroup::{BodyCgroup, CgroupLimits, Cgroups, JoinError};
use crate::control::ask;
use crate::disk::DiskPlan;
use crate::group_note;
use crate::hold::{self, Launching, claim};
use crate::host_image::{HOST_IMAGE, Image};
use crate::id_ranges::IdRanges;
use crate::nursery::Nurseries;
use crate::places::{Grounds, Places, make};
use crate::provider::LinuxProvider;

/// A keeper that was born and not told to go. Dropping it ends it.
struct Newborn {
    pidfd: OwnedFd,
    wanted: bool,
}

impl Drop for Newborn {
    fn drop(&mut self) {
        if !self.wanted {
            let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        }
    }
}

impl LinuxProvider {
    pub(crate) async fn start_body(&self, start: Start<'_>) -> Result<(), StartError> {
        let places = self.grounds.of(start.body);
        let under_way = self.under_way.begin(start.body.sandbox);
        if self.is_whole(&places).await {
            return Ok(());
        }
        let failed =
            |doing: &str, why: &dyn std::fmt::Display| StartError::Failed { why: format!("{doing}: {why}") };
        let left_ms = start.ends_at.ms_since(self.now());
        let is_new = make(&places.control, 0o700).map_err(|error| failed("mark", &error))?;
        let _launching = Launching::begin(&places).await.map_err(|error| failed("mark", &error))?;
        if self.is_whole(&places).await {
            return Ok(());
        }
        if hold::keeper(&places).map_err(|error| failed("look", &error))? != hold::Keeper::Nobody {
            // What a launch has left that died: nobody will ever tell it to go.
            let earlier = self.ending(places.clone());
            let ended = aside(move || earlier.make_room()).await;
            ended.map_err(|error| failed("an earlier keeper", &error))?;
        }
        let launch = self.launch(&places, &start, left_ms, is_new);
        let launch = launch.map_err(|error| failed("the image", &error))?;
        // A birth goes on also where nobody waits for it any more.
        let still_under_way = under_way.clone();
        let born = aside(move || (launch.give_birth(), still_under_way).0).await;
        let mut newborn = born.map_err(|error| failed("birth", &error))?;
        if !start.permit.still_wanted().await {
            drop(newborn);
            // What cannot be cleared away now is found by its mark later.
            let ending = self.ending(places);
            let _ = aside(move || (ending.end(), under_way).0).await;
            return Err(StartError::NoLongerWanted);
        }
        match ask(&places, &Request::Go).await {
            Ok(Response::Done) => {}
            Ok(Response::Refused { why, .. }) => return Err(failed("the world inside", &why)),
            Ok(other) => return Err(failed("go", &format!("{other:?}"))),
            // Somebody has taken the mark away: a stop was quicker.
            Err(error) => return Err(failed("go", &error)),
        }
        newborn.wanted = true;
        Ok(())
    }

    /// All that a birth needs, so that its work on files and groups keeps no other task waiting.
    fn launch(&self, places: &Places, start: &Start<'_>, left_ms: u64, is_new: bool) -> io::Result<Launch> {
        Ok(Launch {
            places: places.clone(),
            grounds: self.grounds.clone(),
            ids: self.ids.clone(),
            cgroups: self.cgroups.clone(),
            image: self.image(start.spec.image.as_deref())?,
            disk: self.disk.plan(&start.spec.limits),
            nurseries: Arc::clone(&self.nurseries),
            spec: start.spec.clone(),
            left_ms,
            is_new,
            ends_with_caller: start.ends_with_caller,
            #[cfg(feature = "weakened")]
            weaknesses: self.weaknesses.clone(),
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
    places: Places,
    grounds: Grounds,
    ids: IdRanges,
    cgroups: Cgroups,
    image: Image,
    disk: DiskPlan,
    nurseries: Arc<Nurseries>,
    spec: Spec,
    left_ms: u64,
    /// Nobody has tried to make it before.
    is_new: bool,
    ends_with_caller: bool,
    #[cfg(feature = "weakened")]
    weaknesses: Vec<pinfold_keeper::weakness::Weakness>,
}

impl Launch {
    /// The mark and a keeper that waits. Whatever a crash leaves of it can be found by the mark.
    fn give_birth(&self) -> io::Result<Newborn> {
        let places = &self.places;
        let held = claim(places)?.into();
        let ids = self.ids.take(places).map_err(io::Error::other)?;
        let secret = fresh_secret()?;
        fs::write(places.secret(), &secret)?;
        let storage = self.disk.prepare(&self.grounds, places, ids)?;
        make_own(&places.logs, ids)?;
        let listener = listen(places)?;
        let output: OwnedFd = File::open(&places.logs)?.into();
        let limits = group_limits(&self.cgroups, &self.spec);
        group_note::note(&self.cgroups, places, &limits, !self.is_new)?;
        let groups = Groups::make(&self.cgroups, &places.name, &limits, ids)?;
        let birth = Birth {
            world: self.world(storage),
            secret,
            ids,
            born_into: groups.cradle.is_some(),
            keeper_groups: groups.of_keeper.len(),
            work_groups: groups.of_work.len(),
            work: groups.work_group(),
            limits: self.limits(),
            left_ms: self.left_ms,
            ends_with_caller: self.ends_with_caller,
            #[cfg(feature = "weakened")]
            weaknesses: self.weaknesses.clone(),
        };
        let mut descriptors = vec![&listener, &output, &held];
        descriptors.extend(groups.cradle.iter().chain(&groups.of_keeper).chain(&groups.of_work));
        descriptors.extend(groups.work.iter().chain(&groups.memory_events).chain(&groups.process_events));
        let (_, pidfd) = self.nurseries.give_birth(&birth, &descriptors)?;
        Ok(Newborn { pidfd, wanted: false })
    }

    fn limits(&self) -> BodyLimits {
        let limits = limits_of(&self.spec);
        #[cfg(feature = "weakened")]
        if self.weaknesses.contains(&pinfold_keeper::weakness::Weakness::OutputWithoutEnd) {
            return BodyLimits { output_bytes: u64::MAX, ..limits };
        }
        limits
    }

    fn world(&self, storage: Storage) -> World {
        World {
            hostname: self.places.name.split('.').nth(1).unwrap_or("sandbox").to_owned(),
            root: Root { layers: self.image.layers.clone(), storage },
            shared: self.image.shared.clone(),
        }
    }
}

/// What the keeper holds executions to by itself.
fn limits_of(spec: &Spec) -> BodyLimits {
    let output_mb = spec.limits.output_mb.unwrap_or(OUTPUT_MB);
    BodyLimits {
        cpu_time_ms: spec.limits.cpu_time_ms,
        output_bytes: output_mb.saturating_mul(1 << 20),
        open_files: spec.limits.open_files,
        operations: spec.limits.operations,
    }
}

/// What one execution may write where nobody says otherwise.
const OUTPUT_MB: u64 = 64;

fn group_limits(cgroups: &Cgroups, spec: &Spec) -> CgroupLimits {
    CgroupLimits {
        memory_bytes: spec.limits.memory_mb.map(|mb| mb.saturating_mul(1 << 20)),
        processes: spec.limits.processes,
        cpu_millis: spec.limits.cpu_millis,
        cpu_weight: None,
        count_io: cgroups.counts_io_cheaply(),
    }
}

/// The control groups of a body, as descriptors for its keeper.
#[derive(Default)]
struct Groups {
    cradle: Option<OwnedFd>,
    of_keeper: Vec<OwnedFd>,
    /// Those that an execution cannot be born into.
    of_work: Vec<OwnedFd>,
    work: Option<OwnedFd>,
    memory_events: Option<OwnedFd>,
    process_events: Option<OwnedFd>,
}

impl Groups {
    /// Without the right to make groups there are none, and the keeper alone holds its world together.
    fn make(cgroups: &Cgroups, name: &str, limits: &CgroupLimits, ids: IdMap) -> io::Result<Self> {
        if !cgroups.abilities().kill.is_enforced() {
            return Ok(Self::default());
        }
        let group = cgroups.make(name, limits).map_err(io::Error::other)?;
        group.delegate_to(ids.uid, ids.gid).map_err(io::Error::other)?;
        Self::open(&group).map_err(io::Error::other)
    }

    fn open(group: &BodyCgroup) -> Result<Self, JoinError> {
        Ok(Self {
            cradle: group.keeper_directory()?,
            of_keeper: group.v1_joiners_of_keeper()?,
            of_work: group.v1_joiners_of_work()?,
            work: group.work_directory()?,
            memory_events: group.memory_events()?,
            process_events: group.process_events()?,
        })
    }

    fn work_group(&self) -> WorkGroup {
        WorkGroup {
            directory: self.work.is_some(),
            memory_events: self.memory_events.is_some(),
            process_events: self.process_events.is_some(),
        }
    }
}

/// A directory that belongs to the sandbox's own root.
fn make_own(path: &Path, ids: IdMap) -> io::Result<()> {
    make(path, 0o700)?;
    chown(path, Some(ids.uid), Some(ids.gid))
}

/// A socket that an earlier try left behind has nobody behind it.
fn listen(places: &Places) -> io::Result<OwnedFd> {
    match fs::remove_file(places.socket()) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    Ok(UnixListener::bind(places.socket())?.into())
}

fn fresh_secret() -> io::Result<String> {
    let mut bytes = [0; 32];
    // The kernel gives as few as this whole.
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
