//! Data of the caller that a sandbox must not see.

use std::fs;

use pinfold_lifecycle::Command;
use pinfold_provider::{OutputEntry, OutputStream, Provider, ReadPosition};

use crate::entry::Verdict;
use crate::fixture::Fixture;

/// The value of an environment variable of this program, the caller; the spawner must not pass it on.
pub(crate) const VARIABLE: &str = "canary-of-the-callers-environment";

async fn environment(fixture: &Fixture) -> Result<String, String> {
    let script = "cat /proc/self/environ; for each in /proc/[0-9]*; do cat $each/environ; done 2>/dev/null";
    let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
    let command = Command { argv, workdir: Some("/".into()), ..Command::default() };
    let execution = fixture.begin(&command, Some(5_000)).await.map_err(|error| error.to_string())?;
    fixture.end_of(execution).await.ok_or("it did not end")?;
    Ok(fixture.output_of(execution))
}

pub(crate) async fn hunt_the_callers_variable(fixture: &Fixture) -> Result<Verdict, String> {
    let found = environment(fixture).await?;
    let path = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| VARIABLE.to_owned());
    let leaked = found.contains(VARIABLE) || found.contains(&path);
    Ok(Verdict::through_if(leaked, "the environments of all processes"))
}

pub(crate) async fn variables_of_the_caller(fixture: &Fixture) -> Result<Verdict, String> {
    let found = environment(fixture).await?;
    let names = ["GIT_", "SSH_", "AWS_", "CARGO_", "RUST", "USER=", "TOKEN"];
    let leaked: Vec<&&str> = names.iter().filter(|name| found.contains(**name)).collect();
    Ok(Verdict::through_if(!leaked.is_empty(), format!("of {names:?} {leaked:?}")))
}

/// The host's configuration is not visible: what is there was created for the sandbox.
pub(crate) async fn configuration_of_the_host(fixture: &Fixture) -> Result<Verdict, String> {
    let script = "ls -A /root /home /run /var/lib /opt /etc/ssh /etc/shadow /etc/sudoers /etc/machine-id \
                  /etc/ssl/private /root/.ssh /root/.gitconfig 2>/dev/null | grep -v : | grep .";
    let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
    let command = Command { argv, workdir: Some("/".into()), ..Command::default() };
    let execution = fixture.begin(&command, Some(5_000)).await.map_err(|error| error.to_string())?;
    fixture.end_of(execution).await.ok_or("it did not end")?;
    let found = fixture.output_of(execution);
    Ok(Verdict::through_if(!found.trim().is_empty(), format!("found: {}", found.replace('\n', " "))))
}

/// Output that looks like a log record stays plain bytes.
pub(crate) async fn forge_a_piece(fixture: &Fixture) -> Result<Verdict, String> {
    let command = fixture.hostile(&["forge-a-piece-of-the-log"]);
    let execution = fixture.begin(&command, Some(5_000)).await.map_err(|error| error.to_string())?;
    fixture.end_of(execution).await.ok_or("it did not end")?;
    let mut reader =
        fixture.provider.output().reader(fixture.instance.sandbox, execution, ReadPosition::default());
    let (mut pieces, mut forged) = (0, false);
    while let Ok(Some(entry)) = reader.next() {
        pieces += 1;
        forged |= match entry {
            OutputEntry::Chunk(piece) => {
                piece.seq >= 99 || piece.at_ms == 0 || piece.stream == OutputStream::Stderr
            }
            OutputEntry::Gap(_) => true,
        };
    }
    if pieces == 0 {
        return Err("nothing was written".into());
    }
    Ok(Verdict::through_if(forged, format!("{pieces} true pieces")))
}

/// A naive reader that takes everything that looks like a header for one.
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
