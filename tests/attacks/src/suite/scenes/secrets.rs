//! What the caller knows and a sandbox must not.

use std::fs::{self, File};

use pinfold_keeper::log::{Reader, Stream};
use pinfold_lifecycle::Command;

use crate::entry::Verdict;
use crate::stage::Stage;

/// The value of a variable that this program, the caller, has; the nursery must not pass it on.
pub(crate) const VARIABLE: &str = "canary-of-the-callers-environment";

async fn environment(stage: &Stage) -> Result<String, String> {
    let script = "cat /proc/self/environ; for each in /proc/[0-9]*; do cat $each/environ; done 2>/dev/null";
    let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
    let command = Command { argv, workdir: Some("/".into()), ..Command::default() };
    let execution = stage.begin(&command, Some(5_000)).await.map_err(|error| error.to_string())?;
    stage.end_of(execution).await.ok_or("it did not end")?;
    Ok(stage.output_of(execution))
}

pub(crate) async fn hunt_the_callers_variable(stage: &Stage) -> Result<Verdict, String> {
    let found = environment(stage).await?;
    let path = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| VARIABLE.to_owned());
    let leaked = found.contains(VARIABLE) || found.contains(&path);
    Ok(Verdict::through_if(leaked, "the environments of all processes"))
}

pub(crate) async fn variables_of_the_caller(stage: &Stage) -> Result<Verdict, String> {
    let found = environment(stage).await?;
    let names = ["GIT_", "SSH_", "AWS_", "CARGO_", "RUST", "USER=", "TOKEN"];
    let leaked: Vec<&&str> = names.iter().filter(|name| found.contains(**name)).collect();
    Ok(Verdict::through_if(!leaked.is_empty(), format!("of {names:?} {leaked:?}")))
}

/// Nothing of the host's own configuration is in sight: what is there was made for the sandbox.
pub(crate) async fn configuration_of_the_host(stage: &Stage) -> Result<Verdict, String> {
    let script = "ls -A /root /home /run /var/lib /opt /etc/ssh /etc/shadow /etc/sudoers /etc/machine-id \
                  /etc/ssl/private /root/.ssh /root/.gitconfig 2>/dev/null | grep -v : | grep .";
    let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
    let command = Command { argv, workdir: Some("/".into()), ..Command::default() };
    let execution = stage.begin(&command, Some(5_000)).await.map_err(|error| error.to_string())?;
    stage.end_of(execution).await.ok_or("it did not end")?;
    let found = stage.output_of(execution);
    Ok(Verdict::through_if(!found.trim().is_empty(), format!("found: {}", found.replace('\n', " "))))
}

/// What looks like a piece of the log is only bytes in one.
pub(crate) async fn forge_a_piece(stage: &Stage) -> Result<Verdict, String> {
    let command = stage.hostile(&["forge-a-piece-of-the-log"]);
    let execution = stage.begin(&command, Some(5_000)).await.map_err(|error| error.to_string())?;
    stage.end_of(execution).await.ok_or("it did not end")?;
    let log = stage.provider.output_of(stage.body.sandbox, execution);
    let mut reader = Reader::new(File::open(log).map_err(|error| error.to_string())?);
    let (mut pieces, mut forged) = (0, false);
    while let Ok(Some(piece)) = reader.piece() {
        pieces += 1;
        forged |= piece.seq >= 99 || piece.at_ms == 0 || piece.stream == Stream::Stderr;
    }
    if pieces == 0 {
        return Err("nothing was written".into());
    }
    Ok(Verdict::through_if(forged, format!("{pieces} true pieces")))
}

/// A reader that takes every place that looks like a header for one.
pub(crate) fn naive_log() -> Result<Verdict, String> {
    let mut forged = vec![4, 0, 0, 0, 2];
    forged.extend(99_u64.to_le_bytes());
    let mut log = vec![20, 0, 0, 0, 1];
    log.extend(&forged);
    let found = log.windows(forged.len()).any(|window| window == forged);
    Ok(Verdict::through_if(found, "a reader that looks for headers finds the forged one"))
}

/// The search finds what is there.
pub(crate) fn naive_secret() -> Result<Verdict, String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let file = directory.path().join("secret");
    fs::write(&file, "0123456789abcdef").map_err(|error| error.to_string())?;
    let found = fs::read(&file).is_ok_and(|text| text.windows(4).any(|window| window == b"cdef"));
    Ok(Verdict::through_if(found, "a secret in a file is found by reading it"))
}
