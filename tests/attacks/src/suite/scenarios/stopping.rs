//! Stops, kills and deadlines against processes that want to stay.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use pinfold_keeper_wire::{self as wire, Request, Response};
use pinfold_lifecycle::{Cause, ExecutionId, ExecutionLimits, StopOutcome};
use pinfold_procfs::start_time;
use pinfold_provider::Provider;
use rustix::process::{Pid, Signal, kill_process};

use super::{a_moment, until};
use crate::entry::Verdict;
use crate::fixture::{Fixture, HOSTILE, standard_limits};
use crate::unprivileged_user::program;

/// How long a stop may take, however the sandbox resists.
const STOP: Duration = Duration::from_secs(10);

async fn begun(fixture: &Fixture, attempt: &str) -> Result<ExecutionId, String> {
    let command = fixture.hostile(&[attempt]);
    let execution = fixture.begin(&command, None).await.map_err(|error| error.to_string())?;
    let sign = fixture.inside("/tmp/alive")?;
    if until(Duration::from_secs(5), async || sign.exists()).await {
        Ok(execution)
    } else {
        Err(format!("it gave no sign of life: {}", fixture.output_of(execution)))
    }
}

async fn stop(fixture: &Fixture, grace_ms: u64) -> Verdict {
    match tokio::time::timeout(STOP, fixture.provider.stop(fixture.instance, grace_ms)).await {
        Ok(StopOutcome::Gone(_)) => Verdict::Held("stopped, and nothing is left".into()),
        Ok(other) => Verdict::Through(format!("{other:?}")),
        Err(_) => Verdict::Through("the stop does not end".into()),
    }
}

pub(crate) async fn stopped_while(fixture: &Fixture, attempt: &str) -> Result<Verdict, String> {
    begun(fixture, attempt).await?;
    Ok(stop(fixture, 200).await)
}

/// Whether a process that writes a sign of life every 50 ms still runs.
async fn is_alive(sign: &Path) -> bool {
    let before = fs::read(sign).unwrap_or_default();
    a_moment(400).await;
    fs::read(sign).unwrap_or_default() != before
}

pub(crate) async fn killed_double_fork(fixture: &Fixture) -> Result<Verdict, String> {
    let execution = begun(fixture, "stay-by-double-fork").await?;
    fixture.provider.kill(fixture.instance, execution).await;
    let alive = is_alive(&fixture.inside("/tmp/alive")?).await;
    Ok(Verdict::through_if(alive, "its second process, after a kill of the execution"))
}

pub(crate) async fn killed_without_first_thread(fixture: &Fixture) -> Result<Verdict, String> {
    // From inside, since an unprivileged user cannot read a sandbox's processes from the host.
    let look = async || fixture.attempt(&["look-whether-it-stays"]).await;
    let command = fixture.hostile(&["stay-without-a-first-thread"]);
    let execution = fixture.begin(&command, None).await.map_err(|error| error.to_string())?;
    if matches!(look().await?, Verdict::Held(_)) {
        return Err("it gave no sign of life".into());
    }
    fixture.provider.kill(fixture.instance, execution).await;
    look().await
}

pub(crate) async fn left_behind(fixture: &Fixture) -> Result<Verdict, String> {
    let execution = begun(fixture, "stay-by-new-session").await?;
    // It holds its output open, so the execution may still be reported as running.
    let ended = tokio::time::timeout(Duration::from_secs(2), fixture.end_of(execution)).await;
    let alive = is_alive(&fixture.inside("/tmp/alive")?).await;
    let said_to_be_over = matches!(ended, Ok(Some(_)));
    Ok(Verdict::through_if(alive && said_to_be_over, format!("over: {said_to_be_over}, alive: {alive}")))
}

async fn ended_by(
    fixture: &Fixture,
    attempt: &str,
    limits: ExecutionLimits,
    cause: Cause,
) -> Result<Verdict, String> {
    let command = fixture.hostile(&[attempt]);
    let execution = fixture.begin_within(&command, limits).await.map_err(|error| error.to_string())?;
    let ended = tokio::time::timeout(Duration::from_secs(5), fixture.end_of(execution)).await;
    Ok(match ended {
        Ok(Some(outcome)) if outcome.cause == cause => Verdict::Held(format!("ended for {cause:?}")),
        other => Verdict::Through(format!("{other:?}")),
    })
}

pub(crate) async fn time_limit(fixture: &Fixture) -> Result<Verdict, String> {
    let limits = ExecutionLimits { timeout_ms: Some(700), inactivity_ms: None };
    ended_by(fixture, "stay-deaf", limits, Cause::TimeLimit).await
}

pub(crate) async fn time_limit_stopped(fixture: &Fixture) -> Result<Verdict, String> {
    let limits = ExecutionLimits { timeout_ms: Some(700), inactivity_ms: None };
    ended_by(fixture, "stay-stopped", limits, Cause::TimeLimit).await
}

pub(crate) async fn inactivity(fixture: &Fixture) -> Result<Verdict, String> {
    let limits = ExecutionLimits { timeout_ms: None, inactivity_ms: Some(700) };
    ended_by(fixture, "stay-deaf", limits, Cause::Inactivity).await
}

/// A sandbox with a lifetime of two seconds ends in time despite this attempt.
async fn over_in_time(fixture: &Fixture, arguments: &[&str]) -> Result<Verdict, String> {
    let (pid, began) = fixture.keeper()?;
    let ends_at = pinfold_test_support::linux::now().after_ms(1_500);
    fixture.provider.keep_alive(fixture.instance, ends_at).await.map_err(|error| error.to_string())?;
    fixture.begin(&fixture.hostile(arguments), None).await.map_err(|error| error.to_string())?;
    let gone = until(Duration::from_secs(6), async || started(pid) != Some(began)).await;
    Ok(Verdict::through_if(!gone, "its keeper ended everything"))
}

fn started(pid: i32) -> Option<u64> {
    start_time(pid).ok()?
}

pub(crate) async fn deadline_under_flood(fixture: &Fixture) -> Result<Verdict, String> {
    over_in_time(fixture, &["steal-what-it-writes"]).await
}

pub(crate) async fn deadline_under_orphans(fixture: &Fixture) -> Result<Verdict, String> {
    over_in_time(fixture, &["orphans-without-end"]).await
}

/// When process 1 is killed from the host, no process inside survives.
pub(crate) async fn keeper_killed(fixture: &Fixture) -> Result<Verdict, String> {
    begun(fixture, "stay-by-double-fork").await?;
    let ids = crate::leftovers::ids_of(fixture).ok_or("it has no ids of its own")?;
    signal_keeper(fixture, Signal::KILL)?;
    let gone = async || crate::leftovers::processes_with(&ids).is_empty();
    Ok(Verdict::through_if(!until(Duration::from_secs(5), gone).await, "all went with it"))
}

fn signal_keeper(fixture: &Fixture, signal: Signal) -> Result<(), String> {
    let pid = Pid::from_raw(fixture.keeper()?.0).ok_or("no process")?;
    kill_process(pid, signal).map_err(|error| error.to_string())
}

pub(crate) async fn stopped_keeper(fixture: &Fixture) -> Result<Verdict, String> {
    begun(fixture, "stay-deaf").await?;
    signal_keeper(fixture, Signal::STOP)?;
    Ok(stop(fixture, 100).await)
}

pub(crate) async fn stopped_twice(fixture: &Fixture) -> Result<Verdict, String> {
    begun(fixture, "stay-by-double-fork").await?;
    let other = fixture.second_provider()?;
    let (one, two) = tokio::join!(stop(fixture, 100), other.stop(fixture.instance, 50));
    // One of the two may have found the other stop in progress; a later stop reports that it is gone.
    Ok(match stop(fixture, 0).await {
        Verdict::Held(_) => Verdict::Held("stopped, and nothing is left".into()),
        Verdict::Through(what) => Verdict::Through(format!("{what}, after {one:?} and {two:?}")),
    })
}

pub(crate) async fn stopped_by_another(fixture: &Fixture) -> Result<Verdict, String> {
    begun(fixture, "stay-by-double-fork").await?;
    let other = fixture.second_provider()?;
    Ok(match tokio::time::timeout(STOP, other.stop(fixture.instance, 100)).await {
        Ok(StopOutcome::Gone(_)) => Verdict::Held("stopped, and nothing is left".into()),
        other => Verdict::Through(format!("{other:?}")),
    })
}

pub(crate) async fn socket_gone(fixture: &Fixture) -> Result<Verdict, String> {
    begun(fixture, "stay-by-double-fork").await?;
    fs::remove_file(fixture.control().join("socket")).map_err(|error| error.to_string())?;
    Ok(stop(fixture, 100).await)
}

pub(crate) async fn files_gone(fixture: &Fixture) -> Result<Verdict, String> {
    begun(fixture, "stay-by-double-fork").await?;
    let directory = fixture.data().join("instances").join(fixture.name());
    // Mounted directories cannot be removed; the rest is.
    let _ = fs::remove_dir_all(directory);
    Ok(stop(fixture, 100).await)
}

pub(crate) async fn stopped_during_exec(fixture: &Fixture) -> Result<Verdict, String> {
    let command = fixture.hostile(&["stay-quietly"]);
    let begin_many = async {
        for _ in 0..20 {
            if fixture.begin(&command, None).await.is_err() {
                break;
            }
        }
    };
    let stop_amid = async {
        a_moment(30).await;
        stop(fixture, 0).await
    };
    let ((), verdict) = tokio::join!(begin_many, stop_amid);
    Ok(verdict)
}

/// Its cgroups were frozen, which delays every signal except a kill of the cgroup.
pub(crate) async fn frozen(fixture: &Fixture) -> Result<Verdict, String> {
    begun(fixture, "stay-deaf").await?;
    let mut frozen = 0;
    for group in groups_of(fixture) {
        frozen += usize::from(fs::write(group.join("cgroup.freeze"), "1").is_ok());
        frozen += usize::from(fs::write(group.join("freezer.state"), "FROZEN").is_ok());
    }
    if frozen == 0 {
        return Err("none of its groups can be frozen".into());
    }
    Ok(stop(fixture, 100).await)
}

fn groups_of(fixture: &Fixture) -> Vec<PathBuf> {
    let base = format!("pinfold.{:032x}", fixture.store_id);
    let mut found = Vec::new();
    crate::leftovers::groups_named(Path::new("/sys/fs/cgroup"), &base, 0, &mut found);
    found.into_iter().map(|base| base.join(fixture.name())).collect()
}

/// A listener in place of the keeper is trusted only with the keeper's secret.
pub(crate) async fn fake_keeper(fixture: &Fixture) -> Result<Verdict, String> {
    let true_secret = fixture.secret();
    let socket = fixture.control().join("socket");
    fs::remove_file(&socket).map_err(|error| error.to_string())?;
    for (secret, believed) in [("0".repeat(64), false), (String::new(), false), (true_secret, true)] {
        let listener = UnixListener::bind(&socket).map_err(|error| error.to_string())?;
        let faker = std::thread::spawn(move || answer_one_ping(&listener, &secret));
        let answered = fixture.answers().await;
        let _ = faker.join();
        let _ = fs::remove_file(&socket);
        if answered && !believed {
            return Ok(Verdict::Through("a stranger was taken for the keeper".into()));
        }
        if !answered && believed {
            return Err("even the secret was not accepted: the scenario proves nothing".into());
        }
    }
    Ok(Verdict::Held("only the secret is accepted".into()))
}

fn answer_one_ping(listener: &UnixListener, secret: &str) {
    let Ok((mut visitor, _)) = listener.accept() else { return };
    if let Ok(Request::Ping { nonce }) = wire::receive(&mut visitor) {
        let pong = Response::Pong { nonce, secret: secret.to_owned(), confirmed: true, missing: None };
        let _ = wire::send(&mut visitor, &pong);
    }
}

/// The pid file names another process's pid with a different start time: that process must not be harmed.
pub(crate) async fn reused_pid(fixture: &Fixture) -> Result<Verdict, String> {
    let stranger =
        || tokio::process::Command::new("sleep").arg("30").stdin(Stdio::null()).kill_on_drop(true).spawn();
    let mut stranger = stranger().map_err(|error| error.to_string())?;
    let pid = stranger.id().and_then(|pid| i32::try_from(pid).ok()).ok_or("no process")?;
    let began = started(pid).ok_or("it did not begin")?;
    let note = fixture.control().join("keeper.pid");
    fs::write(&note, format!("{pid} {}", began + 1)).map_err(|error| error.to_string())?;
    let verdict = stop(fixture, 0).await;
    if started(pid) != Some(began) {
        return Ok(Verdict::Through("a stranger with the same id was ended".into()));
    }
    if matches!(verdict, Verdict::Through(_)) {
        return Ok(verdict);
    }
    // The proof: with the right start time it is taken for the keeper.
    fixture.start(standard_limits(), 20_000).await?;
    let (keeper, keeper_began) = fixture.keeper()?;
    fs::write(&note, format!("{pid} {began}")).map_err(|error| error.to_string())?;
    stop(fixture, 0).await;
    let ended =
        until(Duration::from_secs(3), async || stranger.try_wait().is_ok_and(|ended| ended.is_some())).await;
    if !ended || started(keeper) == Some(keeper_began) {
        return Err("even a correct pid file ends no process: the scenario proves nothing".into());
    }
    Ok(Verdict::Held("its start time distinguishes it from the keeper".into()))
}

/// A check of a process's first thread misses processes whose first thread has exited.
pub(crate) fn naive_owner_check() -> Result<Verdict, String> {
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
    Ok(Verdict::through_if(unseen, "its first thread shows nothing, and it lives"))
}

/// Killing a process and its process group misses processes that left the group.
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
