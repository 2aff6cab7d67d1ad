//! Attacks by files and links.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use pinfold_provider::Provider;
use rustix::fs::Mode;

use super::until;
use crate::entry::Verdict;
use crate::fixture::{Fixture, standard_limits};

/// Earlier code has put links where a start creates files; the keeper is killed, and the same instance is started
/// again.
pub(crate) async fn plant_links(fixture: &Fixture) -> Result<Verdict, String> {
    let targets = fixture.canary().display().to_string();
    fixture.attempt(&["plant-links-in-place-of-mounts", &targets]).await?;
    let (pid, _) = fixture.keeper()?;
    kill(pid)?;
    let gone = until(Duration::from_secs(5), async || !Path::new(&format!("/proc/{pid}")).exists()).await;
    if !gone {
        return Err("its keeper does not go".into());
    }
    let again = fixture.start(standard_limits(), 30_000).await;
    // The caller checks the canary.
    Ok(Verdict::Held(format!("started again: {again:?}")))
}

fn kill(pid: i32) -> Result<(), String> {
    let pid = rustix::process::Pid::from_raw(pid).ok_or("no process")?;
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).map_err(|error| error.to_string())
}

/// It leaves files behind, and a stop removes them without touching anything outside.
pub(crate) async fn removed_after(fixture: &Fixture, arguments: &[&str]) -> Result<Verdict, String> {
    fixture.attempt(arguments).await?;
    let ended = tokio::time::timeout(Duration::from_secs(20), fixture.end()).await;
    Ok(match ended {
        Ok(Ok(())) => Verdict::Held("cleared away".into()),
        Ok(Err(why)) => Verdict::Through(why),
        Err(_) => Verdict::Through("the stop does not end".into()),
    })
}

pub(crate) async fn swap_while_removed(fixture: &Fixture) -> Result<Verdict, String> {
    let command = fixture.hostile(&["swap-while-it-is-removed"]);
    fixture.begin(&command, None).await.map_err(|error| error.to_string())?;
    let alive = fixture.inside("/tmp/alive")?;
    if !until(Duration::from_secs(5), async || alive.exists()).await {
        return Err("it did not begin".into());
    }
    Ok(match fixture.end().await {
        Ok(()) => Verdict::Held("cleared away".into()),
        Err(why) => Verdict::Through(why),
    })
}

pub(crate) async fn pipe_in_place_of_the_probe(fixture: &Fixture) -> Result<Verdict, String> {
    fixture.attempt(&["pipe-in-place-of-the-probes-file"]).await?;
    let _ = fixture.provider.probe(fixture.instance).await;
    Ok(Verdict::through_if(!fixture.answers().await, "the keeper answers"))
}

/// The workspace is a link to the keeper's log directory.
pub(crate) async fn probe_in_a_descriptor(fixture: &Fixture) -> Result<Verdict, String> {
    let logs = fixture.logs();
    for number in 3..14_u32 {
        fixture.attempt(&["workspace-becomes-a-descriptor-of-the-keeper", &number.to_string()]).await?;
        // The keeper creates a file for the next log there, and nothing else.
        if !until(Duration::from_secs(5), async || logs.join("spare").exists()).await {
            return Err("the keeper has no file for the next log".into());
        }
        let before =
            fs::metadata(&logs).and_then(|found| found.modified()).map_err(|error| error.to_string())?;
        let probed = fixture.provider.probe(fixture.instance).await;
        let after =
            fs::metadata(&logs).and_then(|found| found.modified()).map_err(|error| error.to_string())?;
        // A probe also starts a program, whose log is created after the file round trip has succeeded.
        if before != after {
            return Ok(Verdict::Through(format!("it wrote among the logs: {probed:?}")));
        }
    }
    Ok(Verdict::Held("no probe leaves the sandbox".into()))
}

/// A common, naive way to write it.
fn remove_naively(path: &str) -> std::io::Result<()> {
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        let name = name.to_str().ok_or(std::io::ErrorKind::InvalidData)?;
        let child = format!("{path}/{name}");
        if fs::metadata(&child)?.is_dir() {
            remove_naively(&child)?;
        } else {
            fs::remove_file(child)?;
        }
    }
    match fs::remove_dir(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => fs::remove_file(path),
        done => done,
    }
}

fn in_a_tree(
    plant: impl FnOnce(&Path) -> std::io::Result<()>,
) -> Result<(tempfile::TempDir, std::io::Result<()>), String> {
    let place = tempfile::tempdir().map_err(|error| error.to_string())?;
    let tree = place.path().join("tree");
    fs::create_dir(&tree).and_then(|()| plant(&tree)).map_err(|error| error.to_string())?;
    let removed = remove_naively(&tree.display().to_string());
    Ok((place, removed))
}

pub(crate) fn naive_removal_follows_links() -> Result<Verdict, String> {
    let targets = tempfile::tempdir().map_err(|error| error.to_string())?;
    let canary = targets.path().join("canary");
    fs::write(&canary, "x").map_err(|error| error.to_string())?;
    let (_place, _removed) = in_a_tree(|tree| symlink(targets.path(), tree.join("link")))?;
    Ok(Verdict::through_if(!canary.exists(), "it removes what a link points to"))
}

pub(crate) fn naive_removal_stops_at_long_paths() -> Result<Verdict, String> {
    let (_place, removed) = in_a_tree(|tree| {
        let mut at = rustix::fs::open(tree, rustix::fs::OFlags::PATH, Mode::empty())?;
        let name = "d".repeat(100);
        for _ in 0..60 {
            rustix::fs::mkdirat(&at, &name, Mode::RWXU)?;
            at = rustix::fs::openat(&at, &name, rustix::fs::OFlags::PATH, Mode::empty())?;
        }
        Ok(())
    })?;
    Ok(Verdict::through_if(removed.is_err(), format!("it gives up: {removed:?}")))
}

pub(crate) fn naive_removal_stops_at_strange_names() -> Result<Verdict, String> {
    let (_place, removed) =
        in_a_tree(|tree| fs::create_dir(tree.join(std::ffi::OsStr::from_bytes(b"\xff\xfe"))))?;
    Ok(Verdict::through_if(removed.is_err(), format!("it gives up: {removed:?}")))
}
