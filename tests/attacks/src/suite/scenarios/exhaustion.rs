//! Resource exhaustion, checked from the host.

use std::fs;
use std::time::Duration;

use pinfold_lifecycle::Command;
use rustix::fs::inotify;

use super::until;
use crate::entry::Verdict;
use crate::fixture::{Fixture, standard_limits};

/// The output limit, plus what may be in flight.
const MOST_OUTPUT: u64 = 24 << 20;

pub(crate) async fn output(fixture: &Fixture) -> Result<Verdict, String> {
    let command = fixture.hostile(&["write-without-end", "64"]);
    let execution = fixture.begin(&command, Some(10_000)).await.map_err(|error| error.to_string())?;
    if fixture.end_of(execution).await.is_none() {
        return Ok(Verdict::Through("the keeper did not say how it ended".into()));
    }
    let kept = size_of(&fixture.logs());
    Ok(Verdict::through_if(kept > MOST_OUTPUT, format!("{} MiB are kept", kept >> 20)))
}

/// The size of a file, or of all files in a directory.
fn size_of(path: &std::path::Path) -> u64 {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => {
            fs::read_dir(path).into_iter().flatten().flatten().map(|entry| size_of(&entry.path())).sum()
        }
        Ok(found) => found.len(),
        Err(_) => 0,
    }
}

/// Commands that the kernel would reject must not hurt the keeper either.
pub(crate) async fn arguments(fixture: &Fixture) -> Result<Verdict, String> {
    let long = "x".repeat(3 << 20);
    let many = vec!["y".to_owned(); 200_000];
    let variables = (0..50_000).map(|number| (format!("V{number}"), "value".to_owned())).collect();
    let commands = [
        Command { argv: vec!["true".into(), long.clone()], ..Command::default() },
        Command { argv: [vec!["true".to_owned()], many].concat(), ..Command::default() },
        Command { argv: vec!["true".into()], env: variables, ..Command::default() },
        Command { argv: vec!["true".into(), long.repeat(2)], ..Command::default() },
        Command { argv: vec!["true".into()], workdir: Some(long), ..Command::default() },
        Command { argv: vec![String::new()], ..Command::default() },
        Command { argv: vec!["true".into(), "\0".into()], ..Command::default() },
    ];
    for command in commands {
        if let Ok(execution) = fixture.begin(&command, Some(3_000)).await {
            fixture.end_of(execution).await;
        }
        if !fixture.answers().await {
            return Ok(Verdict::Through("the keeper does not answer any more".into()));
        }
    }
    Ok(Verdict::through_if(!fixture.still_works().await, "the keeper goes on"))
}

/// While it holds all inotify watches it can get, the host can still create one.
pub(crate) async fn watches(fixture: &Fixture) -> Result<Verdict, String> {
    let most = fs::read_to_string("/proc/sys/fs/inotify/max_user_instances").unwrap_or_default();
    let most: u32 = most.trim().parse().unwrap_or(128);
    let command = fixture.hostile(&["watches-without-end", &(most + 10).to_string()]);
    let execution = fixture.begin(&command, Some(5_000)).await.map_err(|error| error.to_string())?;
    let has_them = async || fixture.output_of(execution).contains("made ");
    if !until(Duration::from_secs(3), has_them).await {
        return Err("it made none".into());
    }
    let own = inotify::init(inotify::CreateFlags::CLOEXEC);
    let others = other_sandbox_can_watch(fixture).await?;
    Ok(Verdict::through_if(own.is_err() || !others, "host and neighbour still get watches"))
}

/// Asynchronous IO requests are counted for the whole host.
pub(crate) async fn requests(fixture: &Fixture) -> Result<Verdict, String> {
    let taken = || -> Result<u64, String> {
        let text = fs::read_to_string("/proc/sys/fs/aio-nr").map_err(|error| error.to_string())?;
        text.trim().parse().map_err(|_| format!("`{text}` is no number"))
    };
    let before = taken()?;
    let command = fixture.hostile(&["take-requests-of-the-host", "64"]);
    let execution = fixture.begin(&command, Some(5_000)).await.map_err(|error| error.to_string())?;
    if !until(Duration::from_secs(3), async || fixture.output_of(execution).contains("made ")).await {
        return Err("it did not try".into());
    }
    let after = taken()?;
    Ok(Verdict::through_if(
        after > before,
        format!("of the host's requests {before}, then {after} are taken"),
    ))
}

async fn other_sandbox_can_watch(fixture: &Fixture) -> Result<bool, String> {
    let other = Fixture::start_with_hostile(&fixture.targets, |_| Vec::new(), standard_limits()).await?;
    let command = other.hostile(&["watches-without-end", "1"]);
    let execution = other.begin(&command, Some(5_000)).await.map_err(|error| error.to_string())?;
    let made = until(Duration::from_secs(3), async || other.output_of(execution).contains("made 1")).await;
    other.end().await?;
    Ok(made)
}

/// While a fork bomb runs in one sandbox, another starts as usual.
pub(crate) async fn beside_a_neighbour(fixture: &Fixture) -> Result<Verdict, String> {
    let command = fixture.hostile(&["stay-by-forking-faster"]);
    fixture.begin(&command, Some(8_000)).await.map_err(|error| error.to_string())?;
    let other = Fixture::start_with_hostile(&fixture.targets, |_| Vec::new(), standard_limits()).await?;
    let works = other.still_works().await;
    other.end().await?;
    Ok(Verdict::through_if(!works, "a neighbour starts and works"))
}
