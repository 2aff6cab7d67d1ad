//! Two sandboxes, or one and the host, at the same file of the host.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use pinfold_keeper_wire::DisabledGuard;
use pinfold_lifecycle::ExecutionId;
use rustix::fs::{FlockOperation, flock, statfs};

use super::until;
use crate::entry::Verdict;
use crate::fixture::{Fixture, standard_limits};
use crate::unprivileged_user::program;

/// This sandbox watches; a second one, with the same disabled guards, runs a program.
pub(crate) async fn watch_a_neighbour(fixture: &Fixture, path: &str) -> Result<Verdict, String> {
    let other = start_neighbour(fixture).await?;
    let watched = async {
        let watching = begin(fixture, &["watch-a-path", path], "watching").await?;
        if !other.still_works().await {
            return Err("the neighbour ran nothing".to_owned());
        }
        verdict_of(fixture, watching).await
    };
    let verdict = watched.await;
    other.end().await?;
    verdict
}

/// This sandbox watches; the host opens the file.
pub(crate) async fn watch_the_host(fixture: &Fixture, path: &str) -> Result<Verdict, String> {
    let watching = begin(fixture, &["watch-a-path", path], "watching").await?;
    File::open(path).map_err(|error| error.to_string())?;
    verdict_of(fixture, watching).await
}

/// A second sandbox holds a lock; this one asks for it.
pub(crate) async fn signal_a_neighbour(fixture: &Fixture, kind: &str, path: &str) -> Result<Verdict, String> {
    let other = start_neighbour(fixture).await?;
    let asked = async {
        begin(&other, &["hold-a-lock", kind, path], "held").await?;
        fixture.attempt(&["feel-a-lock", kind, path]).await
    };
    let verdict = asked.await;
    other.end().await?;
    verdict
}

/// This sandbox holds a lock; the host asks for it.
pub(crate) async fn lock_against_the_host(fixture: &Fixture, path: &str) -> Result<Verdict, String> {
    begin(fixture, &["hold-a-lock", "file", path], "held").await?;
    let file = File::open(path).map_err(|error| error.to_string())?;
    let asked = flock(&file, FlockOperation::NonBlockingLockExclusive);
    Ok(Verdict::through_if(asked.is_err(), format!("the host's lock: {asked:?}")))
}

/// A file of the host has changes that are not on the disk yet. A sandbox that can read it calls fsync.
pub(crate) async fn flush_the_hosts_disk(fixture: &Fixture) -> Result<Verdict, String> {
    // Beside the programs of the suite: the directory for temporary files may have no disk.
    let beside = program(crate::fixture::HOSTILE);
    let directory = tempfile::tempdir_in(beside.parent().unwrap_or(Path::new("/")));
    let directory = directory.map_err(|error| error.to_string())?;
    let open_up = fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755));
    open_up.map_err(|error| error.to_string())?;
    let mut guards = fixture.disabled_guards.clone();
    guards.push(DisabledGuard::Share(directory.path().to_owned()));
    let other = Fixture::start_with_hostile(&fixture.targets, |_| guards, standard_limits()).await?;
    let flushed = async {
        let file = directory.path().join("changed");
        fs::write(&file, vec![7; 256 * 1024]).map_err(|error| error.to_string())?;
        if is_on_disk(&file)? {
            return Err("the filesystem writes it out at once".to_owned());
        }
        let asked = other.attempt(&["sync-a-file", &file.display().to_string()]).await?;
        Ok(Verdict::through_if(is_on_disk(&file)?, format!("{asked:?}")))
    };
    let verdict = flushed.await;
    other.end().await?;
    verdict
}

/// Whether the kernel has given the file a place on the disk, which it does when it writes it out.
fn is_on_disk(file: &Path) -> Result<bool, String> {
    let output = Command::new("filefrag").arg("-v").arg(file).output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if said.contains("extent") { Ok(!said.contains("delalloc")) } else { Err(format!("filefrag: {said}")) }
}

/// What statfs says about the shared directory changes with everything the host writes.
pub(crate) async fn size_of_the_hosts_disk(fixture: &Fixture) -> Result<Verdict, String> {
    let asked = begin(fixture, &["tell-the-size-of", "/usr"], "size ").await?;
    let host = statfs("/usr").map_err(|error| error.to_string())?.f_blocks;
    let said = fixture.output_of(asked);
    let is_known = said.lines().any(|line| line == format!("size {host}"));
    Ok(Verdict::through_if(is_known, format!("the host's is {host}; inside: {}", said.replace('\n', " "))))
}

async fn start_neighbour(fixture: &Fixture) -> Result<Fixture, String> {
    let guards = fixture.disabled_guards.clone();
    Fixture::start_with_hostile(&fixture.targets, |_| guards, standard_limits()).await
}

/// Begins an attempt and waits until it says this word.
async fn begin(fixture: &Fixture, arguments: &[&str], word: &str) -> Result<ExecutionId, String> {
    let command = fixture.hostile(arguments);
    let execution = fixture.begin(&command, Some(6_000)).await.map_err(|error| error.to_string())?;
    let has_said = async || fixture.output_of(execution).contains(word);
    if until(Duration::from_secs(4), has_said).await {
        Ok(execution)
    } else {
        Err(format!("it did not say `{word}`: {}", fixture.output_of(execution)))
    }
}

async fn verdict_of(fixture: &Fixture, execution: ExecutionId) -> Result<Verdict, String> {
    let outcome = fixture.end_of(execution).await.ok_or("it did not end")?;
    let said = fixture.output_of(execution).trim().replace('\n', " ");
    Ok(Verdict::through_if(outcome.exit_code == Some(0), said))
}
