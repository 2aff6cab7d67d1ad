//! Stops, kills and deadlines against processes that want to stay.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use pinfold_keeper::wire::{self, Request, Response};
use pinfold_lifecycle::{Cause, ExecutionId, ExecutionLimits, StopOutcome};
use pinfold_provider::Provider;
use rustix::process::{Pid, Signal, kill_process};

use super::{a_moment, until};
use crate::entry::Verdict;
use crate::somebody::program;
use crate::stage::{HOSTILE, Stage, standard_limits};

/// How long a stop may take, however the sandbox resists.
const STOP: Duration = Duration::from_secs(10);

async fn begun(stage: &Stage, attempt: &str) -> Result<ExecutionId, String> {
    let command = stage.hostile(&[attempt]);
    let execution = stage.begin(&command, None).await.map_err(|error| error.to_string())?;
    let sign = stage.inside("/tmp/alive")?;
    if until(Duration::from_secs(5), async || sign.exists()).await {
        Ok(execution)
    } else {
        Err(format!("it gave no sign of life: {}", stage.output_of(execution)))
    }
}

async fn stop(stage: &Stage, grace_ms: u64) -> Verdict {
    match tokio::time::timeout(STOP, stage.provider.stop(stage.body, grace_ms)).await {
        Ok(StopOutcome::Gone(_)) => Verdict::Held("stopped, and nothing is left".into()),
        Ok(other) => Verdict::Through(format!("{other:?}")),
        Err(_) => Verdict::Through("the stop does not end".into()),
    }
}

pub(crate) async fn stopped_while(stage: &Stage, attempt: &str) -> Result<Verdict, String> {
    begun(stage, attempt).await?;
    Ok(stop(stage, 200).await)
}

/// Whether a process that says so every 50 ms is still there.
async fn is_alive(sign: &Path) -> bool {
    let before = fs::read(sign).unwrap_or_default();
    a_moment(400).await;
    fs::read(sign).unwrap_or_default() != before
}

pub(crate) async fn killed_double_fork(stage: &Stage) -> Result<Verdict, String> {
    let execution = begun(stage, "stay-by-double-fork").await?;
    stage.provider.kill(stage.body, execution).await;
    let alive = is_alive(&stage.inside("/tmp/alive")?).await;
    Ok(Verdict::through_if(alive, "its second process, after a kill of the execution"))
}

pub(crate) async fn killed_without_first_thread(stage: &Stage) -> Result<Verdict, String> {
    // From inside: an ordinary user cannot look into his own sandboxes from outside.
    let look = async || stage.attempt(&["look-whether-it-stays"]).await;
    let command = stage.hostile(&["stay-without-a-first-thread"]);
    let execution = stage.begin(&command, None).await.map_err(|error| error.to_string())?;
    if matches!(look().await?, Verdict::Held(_)) {
        return Err("it gave no sign of life".into());
    }
    stage.provider.kill(stage.body, execution).await;
    look().await
}

pub(crate) async fn left_behind(stage: &Stage) -> Result<Verdict, String> {
    let execution = begun(stage, "stay-by-new-session").await?;
    // It holds its output open, so that the execution may also be said to run still.
    let ended = tokio::time::timeout(Duration::from_secs(2), stage.end_of(execution)).await;
    let alive = is_alive(&stage.inside("/tmp/alive")?).await;
    let said_to_be_over = matches!(ended, Ok(Some(_)));
    Ok(Verdict::through_if(alive && said_to_be_over, format!("over: {said_to_be_over}, alive: {alive}")))
}

async fn ended_by(
    stage: &Stage,
    attempt: &str,
    limits: ExecutionLimits,
    cause: Cause,
) -> Result<Verdict, String> {
    let command = stage.hostile(&[attempt]);
    let execution = stage.begin_within(&command, limits).await.map_err(|error| error.to_string())?;
    let ended = tokio::time::timeout(Duration::from_secs(5), stage.end_of(execution)).await;
    Ok(match ended {
        Ok(Some(outcome)) if outcome.cause == cause => Verdict::Held(format!("ended for {cause:?}")),
        other => Verdict::Through(format!("{other:?}")),
    })
}

pub(crate) async fn time_limit(stage: &Stage) -> Result<Verdict, String> {
    let limits = ExecutionLimits { timeout_ms: Some(700), inactivity_ms: None };
    ended_by(stage, "stay-deaf", limits, Cause::TimeLimit).await
}

pub(crate) async fn time_limit_stopped(stage: &Stage) -> Result<Verdict, String> {
    let limits = ExecutionLimits { timeout_ms: Some(700), inactivity_ms: None };
    ended_by(stage, "stay-stopped", limits, Cause::TimeLimit).await
}

pub(crate) async fn inactivity(stage: &Stage) -> Result<Verdict, String> {
    let limits = ExecutionLimits { timeout_ms: None, inactivity_ms: Some(700) };
    ended_by(stage, "stay-deaf", limits, Cause::Inactivity).await
}

/// A sandbox with a life of two seconds, in which this attempt is made, is over in time.
async fn over_in_time(stage: &Stage, arguments: &[&str]) -> Result<Verdict, String> {
    let (pid, began) = stage.keeper()?;
    let ends_at = crate::stage::now().after_ms(1_500);
    stage.provider.keep_alive(stage.body, ends_at).await.map_err(|error| error.to_string())?;
    stage.begin(&stage.hostile(arguments), None).await.map_err(|error| error.to_string())?;
    let gone = until(Duration::from_secs(6), async || started(pid) != Some(began)).await;
    Ok(Verdict::through_if(!gone, "its keeper ended everything"))
}

fn started(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    if matches!(fields.next(), Some("Z" | "X") | None) {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

pub(crate) async fn deadline_under_flood(stage: &Stage) -> Result<Verdict, String> {
    over_in_time(stage, &["steal-what-it-writes"]).await
}

pub(crate) async fn deadline_under_orphans(stage: &Stage) -> Result<Verdict, String> {
    over_in_time(stage, &["orphans-without-end"]).await
}

/// When process 1 is killed outside, nobody inside lives on.
pub(crate) async fn keeper_killed(stage: &Stage) -> Result<Verdict, String> {
    begun(stage, "stay-by-double-fork").await?;
    let ids = crate::aftermath::ids_of(stage).ok_or("it has no ids of its own")?;
    signal_keeper(stage, Signal::KILL)?;
    let gone = async || crate::aftermath::processes_with(&ids).is_empty();
    Ok(Verdict::through_if(!until(Duration::from_secs(5), gone).await, "all went with it"))
}

fn signal_keeper(stage: &Stage, signal: Signal) -> Result<(), String> {
    let pid = Pid::from_raw(stage.keeper()?.0).ok_or("no process")?;
    kill_process(pid, signal).map_err(|error| error.to_string())
}

pub(crate) async fn stopped_keeper(stage: &Stage) -> Result<Verdict, String> {
    begun(stage, "stay-deaf").await?;
    signal_keeper(stage, Signal::STOP)?;
    Ok(stop(stage, 100).await)
}

pub(crate) async fn stopped_twice(stage: &Stage) -> Result<Verdict, String> {
    begun(stage, "stay-by-double-fork").await?;
    let other = stage.second_provider()?;
    let (one, two) = tokio::join!(stop(stage, 100), other.stop(stage.body, 50));
    // One of the two may have found the other at work; whoever asks afterwards is told that it is gone.
    Ok(match stop(stage, 0).await {
        Verdict::Held(_) => Verdict::Held("stopped, and nothing is left".into()),
        Verdict::Through(what) => Verdict::Through(format!("{what}, after {one:?} and {two:?}")),
    })
}

pub(crate) async fn stopped_by_another(stage: &Stage) -> Result<Verdict, String> {
    begun(stage, "stay-by-double-fork").await?;
    let other = stage.second_provider()?;
    Ok(match tokio::time::timeout(STOP, other.stop(stage.body, 100)).await {
        Ok(StopOutcome::Gone(_)) => Verdict::Held("stopped, and nothing is left".into()),
        other => Verdict::Through(format!("{other:?}")),
    })
}

pub(crate) async fn socket_gone(stage: &Stage) -> Result<Verdict, String> {
    begun(stage, "stay-by-double-fork").await?;
    fs::remove_file(stage.control().join("socket")).map_err(|error| error.to_string())?;
    Ok(stop(stage, 100).await)
}

pub(crate) async fn files_gone(stage: &Stage) -> Result<Verdict, String> {
    begun(stage, "stay-by-double-fork").await?;
    let body = stage.data().join("bodies").join(stage.name());
    // What is mounted cannot be removed; what can be is.
    let _ = fs::remove_dir_all(body);
    Ok(stop(stage, 100).await)
}

pub(crate) async fn stopped_during_exec(stage: &Stage) -> Result<Verdict, String> {
    let command = stage.hostile(&["stay-quietly"]);
    let begin_many = async {
        for _ in 0..20 {
            if stage.begin(&command, None).await.is_err() {
                break;
            }
        }
    };
    let stop_amid = async {
        a_moment(30).await;
        stop(stage, 0).await
    };
    let ((), verdict) = tokio::join!(begin_many, stop_amid);
    Ok(verdict)
}

/// Somebody froze its groups, which holds every signal up but the end of the group itself.
pub(crate) async fn frozen(stage: &Stage) -> Result<Verdict, String> {
    begun(stage, "stay-deaf").await?;
    let mut frozen = 0;
    for group in groups_of(stage) {
        frozen += usize::from(fs::write(group.join("cgroup.freeze"), "1").is_ok());
        frozen += usize::from(fs::write(group.join("freezer.state"), "FROZEN").is_ok());
    }
    if frozen == 0 {
        return Err("none of its groups can be frozen".into());
    }
    Ok(stop(stage, 100).await)
}

fn groups_of(stage: &Stage) -> Vec<PathBuf> {
    let base = format!("pinfold.{:032x}", stage.instance);
    let mut found = Vec::new();
    crate::aftermath::groups_named(Path::new("/sys/fs/cgroup"), &base, 0, &mut found);
    found.into_iter().map(|base| base.join(stage.name())).collect()
}

/// A listener in the keeper's place is believed only with the keeper's secret.
pub(crate) async fn fake_keeper(stage: &Stage) -> Result<Verdict, String> {
    let true_secret = stage.secret();
    let socket = stage.control().join("socket");
    fs::remove_file(&socket).map_err(|error| error.to_string())?;
    for (secret, believed) in [("0".repeat(64), false), (String::new(), false), (true_secret, true)] {
        let listener = UnixListener::bind(&socket).map_err(|error| error.to_string())?;
        let faker = std::thread::spawn(move || answer_one_ping(&listener, &secret));
        let answered = stage.answers().await;
        let _ = faker.join();
        let _ = fs::remove_file(&socket);
        if answered && !believed {
            return Ok(Verdict::Through("a stranger was taken for the keeper".into()));
        }
        if !answered && believed {
            return Err("even the secret was not believed: the scene proves nothing".into());
        }
    }
    Ok(Verdict::Held("only the secret is believed".into()))
}

fn answer_one_ping(listener: &UnixListener, secret: &str) {
    let Ok((mut visitor, _)) = listener.accept() else { return };
    if let Ok(Request::Ping { nonce }) = wire::receive(&mut visitor) {
        let pong = Response::Pong { nonce, secret: secret.to_owned(), wanted: true, missing: None };
        let _ = wire::send(&mut visitor, &pong);
    }
}

/// The note of process 1 names a stranger's id with another start time: the stranger must not be harmed.
pub(crate) async fn reused_pid(stage: &Stage) -> Result<Verdict, String> {
    let stranger =
        || tokio::process::Command::new("sleep").arg("30").stdin(Stdio::null()).kill_on_drop(true).spawn();
    let mut stranger = stranger().map_err(|error| error.to_string())?;
    let pid = stranger.id().and_then(|pid| i32::try_from(pid).ok()).ok_or("no process")?;
    let began = started(pid).ok_or("it did not begin")?;
    let note = stage.control().join("process");
    fs::write(&note, format!("{pid} {}", began + 1)).map_err(|error| error.to_string())?;
    let verdict = stop(stage, 0).await;
    if started(pid) != Some(began) {
        return Ok(Verdict::Through("a stranger with the same id was ended".into()));
    }
    if matches!(verdict, Verdict::Through(_)) {
        return Ok(verdict);
    }
    // The proof: with its right start time it is taken for the keeper.
    stage.start(standard_limits(), 20_000).await?;
    let (keeper, keeper_began) = stage.keeper()?;
    fs::write(&note, format!("{pid} {began}")).map_err(|error| error.to_string())?;
    stop(stage, 0).await;
    let ended =
        until(Duration::from_secs(3), async || stranger.try_wait().is_ok_and(|ended| ended.is_some())).await;
    if !ended || started(keeper) == Some(keeper_began) {
        return Err("even a right note ends nobody: the scene proves nothing".into());
    }
    Ok(Verdict::Held("it is told from the keeper by its start time".into()))
}

/// Whoever asks the first thread of a process whose it is learns nothing of those that have none.
pub(crate) fn naive_look() -> Result<Verdict, String> {
    let sign = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
    let mut process = std::process::Command::new(program(HOSTILE))
        .args([OsStr::new("lose-its-first-thread"), sign.path().as_os_str()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    let link = format!("/proc/{}/ns/cgroup", process.id());
    let mut unseen = false;
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(20));
        unseen = fs::read_link(&link).is_err() && process.try_wait().is_ok_and(|ended| ended.is_none());
        if unseen {
            break;
        }
    }
    let _ = process.kill();
    let _ = process.wait();
    Ok(Verdict::through_if(unseen, "its first thread tells nothing, and it lives"))
}

/// A kill of one process and its group does not find who left the group.
pub(crate) fn naive_kill() -> Result<Verdict, String> {
    let script = "setsid sleep 20 & echo $!; wait";
    let child = std::process::Command::new("sh")
        .args(["-c", script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = child.map_err(|error| error.to_string())?;
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line)
            .map_err(|error| error.to_string())?;
    }
    let _ = child.kill();
    let _ = child.wait();
    let pid = line.trim().parse().ok().and_then(Pid::from_raw).ok_or("no process")?;
    let survived = kill_process(pid, Signal::KILL).is_ok();
    Ok(Verdict::through_if(survived, "a kill of the first process leaves the second"))
}
