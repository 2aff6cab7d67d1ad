//! Files as traps.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use pinfold_provider::Provider;
use rustix::fs::Mode;

use super::until;
use crate::entry::Verdict;
use crate::stage::{Stage, standard_limits};

/// Code that ran before has put links where a start puts files; the keeper is lost, and the same body starts again.
pub(crate) async fn plant_links(stage: &Stage) -> Result<Verdict, String> {
    let outside = stage.canary().display().to_string();
    stage.attempt(&["plant-links-in-place-of-mounts", &outside]).await?;
    let (pid, _) = stage.keeper()?;
    kill(pid)?;
    let gone = until(Duration::from_secs(5), async || !Path::new(&format!("/proc/{pid}")).exists()).await;
    if !gone {
        return Err("its keeper does not go".into());
    }
    let again = stage.start(standard_limits(), 30_000).await;
    // The canary is looked at by whoever called.
    Ok(Verdict::Held(format!("started again: {again:?}")))
}

fn kill(pid: i32) -> Result<(), String> {
    let pid = rustix::process::Pid::from_raw(pid).ok_or("no process")?;
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).map_err(|error| error.to_string())
}

/// It leaves something behind, and a stop clears it away with nothing outside touched.
pub(crate) async fn removed_after(stage: &Stage, arguments: &[&str]) -> Result<Verdict, String> {
    stage.attempt(arguments).await?;
    let ended = tokio::time::timeout(Duration::from_secs(20), stage.end()).await;
    Ok(match ended {
        Ok(Ok(())) => Verdict::Held("cleared away".into()),
        Ok(Err(why)) => Verdict::Through(why),
        Err(_) => Verdict::Through("the stop does not end".into()),
    })
}

pub(crate) async fn swap_while_removed(stage: &Stage) -> Result<Verdict, String> {
    let command = stage.hostile(&["swap-while-it-is-removed"]);
    stage.begin(&command, None).await.map_err(|error| error.to_string())?;
    let alive = stage.inside("/tmp/alive")?;
    if !until(Duration::from_secs(5), async || alive.exists()).await {
        return Err("it did not begin".into());
    }
    Ok(match stage.end().await {
        Ok(()) => Verdict::Held("cleared away".into()),
        Err(why) => Verdict::Through(why),
    })
}

pub(crate) async fn pipe_in_place_of_the_probe(stage: &Stage) -> Result<Verdict, String> {
    stage.attempt(&["pipe-in-place-of-the-probes-file"]).await?;
    let _ = stage.provider.probe(stage.body).await;
    Ok(Verdict::through_if(!stage.answers().await, "the keeper answers"))
}

/// The workspace is a link to what the keeper holds: the directory of its logs.
pub(crate) async fn probe_in_a_descriptor(stage: &Stage) -> Result<Verdict, String> {
    let logs = stage.logs();
    for number in 3..14_u32 {
        stage.attempt(&["workspace-becomes-a-descriptor-of-the-keeper", &number.to_string()]).await?;
        // The keeper makes a file for the next log there, and then has nothing more to do among them.
        if !until(Duration::from_secs(5), async || logs.join("spare").exists()).await {
            return Err("the keeper has no file for the next log".into());
        }
        let before =
            fs::metadata(&logs).and_then(|found| found.modified()).map_err(|error| error.to_string())?;
        let probed = stage.provider.probe(stage.body).await;
        let after =
            fs::metadata(&logs).and_then(|found| found.modified()).map_err(|error| error.to_string())?;
        // A probe also starts a program, whose log is made after the round trip through the file has succeeded.
        if before != after {
            return Ok(Verdict::Through(format!("it wrote among the logs: {probed:?}")));
        }
    }
    Ok(Verdict::Held("no probe leaves the sandbox".into()))
}

/// The way many would write it.
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
    let outside = tempfile::tempdir().map_err(|error| error.to_string())?;
    let canary = outside.path().join("canary");
    fs::write(&canary, "x").map_err(|error| error.to_string())?;
    let (_place, _removed) = in_a_tree(|tree| symlink(outside.path(), tree.join("link")))?;
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
