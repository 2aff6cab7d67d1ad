//! How a body comes into being: its mark, a keeper that waits, the permit, and only then the word to go.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::chown;
use std::os::unix::net::UnixListener;
use std::path::Path;

use pinfold_keeper::wire::{Birth, IdMap, Request, Response};
use pinfold_keeper::world::World;
use pinfold_lifecycle::{Spec, Timestamp};
use pinfold_provider::{Start, StartError};
use rustix::process::{Signal, pidfd_send_signal};

use crate::cgroup::{CgroupLimits, Cgroups};
use crate::control::ask;
use crate::look::started;
use crate::places::{Places, make};
use crate::provider::LinuxProvider;
use crate::stop::remove_tree;

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
        if self.is_whole(&places).await {
            return Ok(());
        }
        let failed =
            |doing: &str, why: &dyn std::fmt::Display| StartError::Failed { why: format!("{doing}: {why}") };
        let left_ms = start.ends_at.ms_since(self.now());
        let mut newborn =
            self.give_birth(&places, start.spec, left_ms).map_err(|error| failed("birth", &error))?;
        if !start.permit.still_wanted().await {
            drop(newborn);
            // What cannot be cleared away now is found by its mark later.
            let _ = self.end_one(&places, 0).await;
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

    /// The mark and a keeper that waits. Whatever a crash leaves of it can be found by the mark.
    fn give_birth(&self, places: &Places, spec: &Spec, left_ms: u64) -> io::Result<Newborn> {
        make(&places.control, 0o700)?;
        let ids = self.ids.take(places).map_err(io::Error::other)?;
        let secret = fresh_secret()?;
        fs::write(places.secret(), &secret)?;
        make_own(&places.body, ids)?;
        self.clear_root(places)?;
        make_own(&places.root(), ids)?;
        self.host.furnish(&places.root(), ids)?;
        make_own(&places.logs, ids)?;
        let listener = listen(places)?;
        let output: OwnedFd = File::open(&places.logs)?.into();
        let groups = Groups::make(&self.cgroups, &places.name, spec)?;
        let birth = Birth {
            world: self.world(places),
            secret,
            ids,
            born_into: groups.cradle.is_some(),
            keeper_groups: groups.of_keeper.len(),
            work_groups: groups.of_work.len(),
            left_ms,
            ends_with_caller: self.ends_with_caller,
            #[cfg(feature = "weakened")]
            weaknesses: self.weaknesses.clone(),
        };
        let mut descriptors = vec![&listener, &output];
        descriptors.extend(groups.cradle.iter().chain(&groups.of_keeper).chain(&groups.of_work));
        let (pid, pidfd) = self.nursery.give_birth(&birth, &descriptors)?;
        let newborn = Newborn { pidfd, wanted: false };
        let began = started(pid)?.ok_or(io::ErrorKind::NotFound)?;
        fs::write(places.process(), format!("{pid} {began}"))?;
        Ok(newborn)
    }

    /// What an earlier try left may have been changed by what ran there: links in it would lead this one outside.
    fn clear_root(&self, places: &Places) -> io::Result<()> {
        #[cfg(feature = "weakened")]
        if self.weaknesses.contains(&pinfold_keeper::weakness::Weakness::RootTakenAsFound) {
            return Ok(());
        }
        remove_tree(&places.root())
    }

    fn world(&self, places: &Places) -> World {
        World {
            hostname: places.name.split('.').nth(1).unwrap_or("sandbox").to_owned(),
            root: places.root(),
            shared: self.host.shared.clone(),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }
}

/// The control groups of a body, as descriptors for its keeper.
struct Groups {
    cradle: Option<OwnedFd>,
    of_keeper: Vec<OwnedFd>,
    of_work: Vec<OwnedFd>,
}

impl Groups {
    /// Without the right to make groups there are none, and the keeper alone holds its world together.
    fn make(cgroups: &Cgroups, name: &str, spec: &Spec) -> io::Result<Self> {
        if !cgroups.abilities().kill.is_enforced() {
            return Ok(Self { cradle: None, of_keeper: Vec::new(), of_work: Vec::new() });
        }
        let limits = CgroupLimits {
            memory_bytes: spec.limits.memory_mb.map(|mb| mb.saturating_mul(1 << 20)),
            processes: spec.limits.processes,
            ..CgroupLimits::default()
        };
        let group = cgroups.make(name, &limits).map_err(io::Error::other)?;
        Ok(Self {
            cradle: group.keeper_directory().map_err(io::Error::other)?,
            of_keeper: group.v1_joiners_of_keeper().map_err(io::Error::other)?,
            of_work: group.joiners_of_work().map_err(io::Error::other)?,
        })
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
    io::Read::read_exact(&mut File::open("/dev/urandom")?, &mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
