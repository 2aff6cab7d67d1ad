//! How a body comes into being: its mark, a keeper that waits, the permit, and only then the word to go.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::chown;
use std::os::unix::net::UnixListener;
use std::path::Path;

use pinfold_keeper::wire::{Birth, IdMap, Request, Response};
use pinfold_keeper::world::World;
use pinfold_lifecycle::Timestamp;
use pinfold_provider::{Start, StartError};
use rustix::process::{Signal, pidfd_send_signal};

use crate::control::ask;
use crate::look::started;
use crate::places::{Places, make};
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
        if self.is_whole(&places).await {
            return Ok(());
        }
        let failed =
            |doing: &str, why: &dyn std::fmt::Display| StartError::Failed { why: format!("{doing}: {why}") };
        let left_ms = start.ends_at.ms_since(self.now());
        let mut newborn = self.give_birth(&places, left_ms).map_err(|error| failed("birth", &error))?;
        if !start.permit.still_wanted().await {
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
    fn give_birth(&self, places: &Places, left_ms: u64) -> io::Result<Newborn> {
        make(&places.control, 0o700)?;
        let ids = self.ids.take(places).map_err(io::Error::other)?;
        let secret = fresh_secret()?;
        fs::write(places.secret(), &secret)?;
        make_own(&places.body, ids)?;
        for directory in [places.upper(), places.work(), places.root()] {
            make_own(&directory, ids)?;
        }
        make(&places.logs, 0o700)?;
        let listener = listen(places)?;
        let output: OwnedFd = File::open(&places.logs)?.into();
        let birth =
            Birth { world: self.world(places), secret, ids, keeper_groups: 0, work_groups: 0, left_ms };
        let (pid, pidfd) = self.nursery.give_birth(&birth, &[&listener, &output])?;
        let newborn = Newborn { pidfd, wanted: false };
        let began = started(pid)?.ok_or(io::ErrorKind::NotFound)?;
        fs::write(places.process(), format!("{pid} {began}"))?;
        Ok(newborn)
    }

    fn world(&self, places: &Places) -> World {
        World {
            hostname: places.name.split('.').nth(1).unwrap_or("sandbox").to_owned(),
            root: places.root(),
            layers: vec![self.host.layer.clone()],
            upper: places.upper(),
            work: places.work(),
            shared: self.host.shared.clone(),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
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
