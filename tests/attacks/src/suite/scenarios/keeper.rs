//! Escapes through the keeper, and attempts to block it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use pinfold_lifecycle::Command;

use super::{a_moment, until};
use crate::entry::Verdict;
use crate::fixture::{Fixture, runtime};

/// Descriptors that the keeper may hold when it starts a program.
const DESCRIPTORS: std::ops::Range<u32> = 3..14;

/// The working directory is a link to one of the keeper's descriptors, which a child has until its exec.
pub(crate) async fn start_in_a_descriptor(fixture: &Fixture) -> Result<Verdict, String> {
    for number in DESCRIPTORS {
        fixture.attempt(&["workspace-becomes-a-descriptor-of-the-keeper", &number.to_string()]).await?;
        for workdir in ["/workspace".to_owned(), format!("/proc/self/fd/{number}")] {
            let verdict = fixture.attempt_in(&["reach-outside-from-its-working-directory"], &workdir).await?;
            if let Verdict::Through(what) = verdict {
                return Ok(Verdict::Through(format!("by descriptor {number}: {what}")));
            }
        }
    }
    Ok(Verdict::Held("no descriptor is a working directory".into()))
}

/// The program is found by a link through one of the keeper's descriptors.
pub(crate) async fn start_by_a_descriptor(fixture: &Fixture) -> Result<Verdict, String> {
    let targets = fixture.directory.path().join("program");
    fs::copy("/usr/bin/true", &targets).map_err(|error| error.to_string())?;
    fs::set_permissions(&targets, fs::Permissions::from_mode(0o755)).map_err(|error| error.to_string())?;
    let targets = targets.display().to_string();
    for number in DESCRIPTORS {
        let number = number.to_string();
        fixture.attempt(&["program-becomes-a-descriptor-of-the-keeper", &number, &targets]).await?;
        let argv = vec!["/tmp/program".to_owned()];
        let command = Command { argv, workdir: Some("/".into()), ..Command::default() };
        let Ok(execution) = fixture.begin(&command, Some(3_000)).await else { continue };
        if fixture.end_of(execution).await.is_some_and(|outcome| outcome.exit_code == Some(0)) {
            return Ok(Verdict::Through(format!("ran a program of the host by descriptor {number}")));
        }
    }
    Ok(Verdict::Held("no descriptor leads to a program".into()))
}

/// A script whose interpreter is `/proc/self/exe` makes the runtime run inside, where the attacker waits to open
/// its file. The keeper's own executable is tried too.
pub(crate) async fn overwrite_the_runtime(fixture: &Fixture) -> Result<Verdict, String> {
    let changed = || fs::metadata(runtime()).and_then(|found| found.modified());
    let before = changed().map_err(|error| error.to_string())?;
    fixture.attempt(&["run-the-runtime-by-proc-self-exe"]).await?;
    let trap =
        Command { argv: vec!["/tmp/trap".to_owned()], workdir: Some("/".into()), ..Command::default() };
    let spring = async {
        for _ in 0..40 {
            let _ = fixture.begin(&trap, Some(3_000)).await;
            a_moment(20).await;
        }
    };
    let (caught, ()) = tokio::join!(fixture.attempt(&["catch-the-runtime"]), spring);
    let keepers = fixture.attempt(&["open-for-writing", "/proc/1/exe"]).await?;
    if before != changed().map_err(|error| error.to_string())? {
        return Ok(Verdict::Through("the runtime's file was changed".into()));
    }
    match caught? {
        Verdict::Held(_) if matches!(keepers, Verdict::Through(_)) => Ok(keepers),
        caught => Ok(caught),
    }
}

pub(crate) async fn stop_all(fixture: &Fixture) -> Result<Verdict, String> {
    fixture.attempt(&["stop-all-it-can-see"]).await?;
    let well = fixture.answers().await && fixture.still_works().await;
    Ok(Verdict::through_if(!well, "the keeper answers and starts programs"))
}

/// A child that is stopped between fork and exec must not block the keeper.
pub(crate) async fn stop_new_processes(fixture: &Fixture) -> Result<Verdict, String> {
    let command = fixture.hostile(&["stop-new-processes"]);
    fixture.begin(&command, Some(8_000)).await.map_err(|error| error.to_string())?;
    a_moment(50).await;
    for _ in 0..6 {
        let argv = vec!["true".to_owned()];
        let plain = Command { argv, workdir: Some("/".into()), ..Command::default() };
        // Whether the program runs does not matter: it is the attacker's own sandbox.
        let _ = fixture.begin(&plain, Some(1_000)).await;
    }
    let answers = until(Duration::from_secs(4), async || fixture.answers().await).await;
    Ok(Verdict::through_if(!answers, "the keeper answers"))
}

/// Whether the keeper answers throughout this attempt.
async fn answers_beside(fixture: &Fixture, arguments: &[&str], harm: &str) -> Result<Verdict, String> {
    let command = fixture.hostile(arguments);
    fixture.begin(&command, Some(9_000)).await.map_err(|error| error.to_string())?;
    for _ in 0..12 {
        a_moment(250).await;
        if !fixture.answers().await {
            return Ok(Verdict::Through(harm.into()));
        }
    }
    Ok(Verdict::Held("the keeper answers".into()))
}

pub(crate) async fn steal_output(fixture: &Fixture) -> Result<Verdict, String> {
    answers_beside(fixture, &["steal-what-it-writes"], "the keeper waits for what was taken back").await
}

pub(crate) async fn orphans(fixture: &Fixture) -> Result<Verdict, String> {
    answers_beside(fixture, &["orphans-without-end"], "the keeper is busy with orphans").await
}

/// Even a blocked keeper must not prevent the sandbox's stop.
pub(crate) async fn hold_output(fixture: &Fixture, by: &str) -> Result<Verdict, String> {
    let arguments = ["hold-the-lock-of-its-output", by];
    let verdict =
        answers_beside(fixture, &arguments, "the keeper waits for a lock that is held inside").await?;
    if matches!(verdict, Verdict::Through(_)) {
        fixture.end().await.map_err(|why| format!("and it cannot be stopped any more: {why}"))?;
    }
    Ok(verdict)
}
