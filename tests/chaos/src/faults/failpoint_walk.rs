//! The failpoint walk: each operation is crashed at its first failpoint, at its second, and so on until it
//! completes; and each time the recovering server is crashed in the same way until one completes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use pinfold_checker::{
    Answer, Api, Command, CreateRequest, Deadline, Execution, Promises, Rows, Sandbox, Stopwatch,
};
use serde_json::json;

use super::fixture::Fixture;
use super::server::{Program, Server};
use super::verifier::Verifier;
use crate::failpoint_server::failpoints::{Call, Failpoint};

#[derive(clap::Args)]
pub(crate) struct Options {
    #[arg(long)]
    directory: PathBuf,
    /// Only this operation
    #[arg(long, value_enum)]
    operation: Option<Operation>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Operation {
    Create,
    Exec,
    Cancel,
    Stop,
    Reconcile,
}

impl Operation {
    const ALL: [Self; 5] = [Self::Create, Self::Exec, Self::Cancel, Self::Stop, Self::Reconcile];
}

/// More failpoints than any operation or recovery has.
const MOST: u64 = 60;
const ANSWER: Duration = Duration::from_secs(20);
const SETTLE: Duration = Duration::from_secs(60);
/// A server that is still running so long after its operation completed has no failpoint left to hit.
const AFTERWARDS: Duration = Duration::from_millis(700);
const SANDBOX: &str = "/api/sandbox";

/// Crashes per failpoint, in operations and in recoveries.
#[derive(Default)]
struct CrashCounts(BTreeMap<String, (u64, u64)>);

/// Runs in its own namespaces.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let name =
        options.directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let fixture = Fixture::prepare(&options.directory, &format!("pinfold-points.{name}"))?;
    let mut crashes = CrashCounts::default();
    let wanted = Operation::ALL.into_iter().filter(|one| options.operation.is_none_or(|asked| asked == *one));
    for operation in wanted {
        let begun = Stopwatch::start();
        let mut killed = 0;
        while killed < MOST && crash_once(&fixture, operation, killed + 1, &mut crashes)? {
            killed += 1;
        }
        ensure!(killed < MOST, "{operation:?} has too many failpoints");
        println!(
            "{operation:?} was crashed at each of its {killed} failpoints, in {:.1} s",
            begun.elapsed().as_secs_f32()
        );
    }
    println!("{:<18} {:>10} {:>10}", "failpoint", "operation", "recovery");
    for (point, (operations, recoveries)) in &crashes.0 {
        println!("{point:<18} {operations:>10} {recoveries:>10}");
    }
    if options.operation.is_none() {
        crashes.are_complete()?;
    }
    Ok(ExitCode::SUCCESS)
}

impl CrashCounts {
    fn note(&mut self, server: &Server, in_recovery: bool) {
        let count = self.0.entry(server.crash_point().unwrap_or_else(|| "unknown".into())).or_default();
        if in_recovery { count.1 += 1 } else { count.0 += 1 }
    }

    /// Failpoints of the pool are left to the random rounds.
    fn are_complete(&self) -> Result<()> {
        let is_covered = |point: &Failpoint| !matches!(point.call, Call::Fill | Call::Claim | Call::Extend);
        let missed: Vec<String> = Failpoint::all()
            .filter(is_covered)
            .map(|point| point.to_string())
            .filter(|name| !self.0.contains_key(name))
            .collect();
        ensure!(missed.is_empty(), "never crashed at {missed:?}");
        Ok(())
    }
}

/// Whether the server was crashed. If not, the operation completed before that hit.
fn crash_once(fixture: &Fixture, operation: Operation, nth: u64, crashes: &mut CrashCounts) -> Result<bool> {
    let mut server = Server::start(fixture, &program_with_failpoints(None))?;
    let mut promises = Promises::default();
    let subject = Subject::prepare(&server.api, operation, &mut promises)?;
    server.command(&format!("crash any:{nth}"))?;
    let is_done = subject.perform(&server.api, fixture, operation, nth, &mut promises)?;
    let within = if is_done { AFTERWARDS } else { ANSWER };
    let killed = server.crashes_within(within);
    if killed {
        crashes.note(&server, false);
    } else {
        ensure!(is_done, "{operation:?} did not complete, and the server did not crash");
        server.kill()?;
    }
    drop(server);
    let server = recover(fixture, killed, crashes)?;
    let verifier = Verifier::of(fixture, SETTLE)?;
    let mut found = verifier.while_live(&server, &mut promises);
    if found.is_empty() {
        found = verifier.when_all_ended(&server, &mut promises);
    }
    for complaint in &found {
        println!("  {complaint}");
    }
    ensure!(found.is_empty(), "{operation:?} crashed at hit {nth} violates a guarantee");
    let status = server.end()?;
    ensure!(status.success(), "the server ended with {status}");
    Ok(killed)
}

/// Starts servers, each crashed one failpoint later than the one before, until one recovers completely.
fn recover(fixture: &Fixture, is_killed: bool, crashes: &mut CrashCounts) -> Result<Server> {
    let mut nth = 1;
    loop {
        let crash_at = (is_killed && nth <= MOST).then_some(nth);
        let mut server = Server::start(fixture, &program_with_failpoints(crash_at))?;
        let settled = Deadline::after(SETTLE).poll(|| {
            let is_dead = server.is_dead();
            (is_dead || is_settled(&fixture.data)).then_some(is_dead)
        });
        match settled {
            None => bail!("not settled after {SETTLE:?}"),
            Some(false) if !server.crashes_within(AFTERWARDS) => return replace(fixture, server),
            Some(_) => {}
        }
        ensure!(server.crashes_within(ANSWER), "the server did not crash");
        crashes.note(&server, true);
        nth += 1;
    }
}

/// Replaces an armed server, which must not crash during the checks.
fn replace(fixture: &Fixture, mut server: Server) -> Result<Server> {
    server.kill()?;
    drop(server);
    let server = Server::start(fixture, &program_with_failpoints(None))?;
    Deadline::after(SETTLE)
        .poll(|| is_settled(&fixture.data).then_some(()))
        .context("it does not settle again")?;
    Ok(server)
}

/// Nothing is in progress: instances are live or gone, and executions have ended or run.
fn is_settled(data: &Path) -> bool {
    Rows::read(data).is_ok_and(|rows| {
        let open = rows.sandboxes.iter().filter(|row| !row.is_settled);
        let are_live =
            open.into_iter().all(|row| row.state.pointer("/lease/live/check") == Some(&json!(null)));
        are_live && rows.open_executions.iter().all(|open| open.is_running)
    })
}

fn program_with_failpoints(crash_at: Option<u64>) -> Program {
    let mut arguments = vec!["--no-pool".to_owned()];
    arguments.extend(crash_at.into_iter().flat_map(|nth| ["--crash-at".to_owned(), format!("any:{nth}")]));
    Program::WithFailpoints(arguments)
}

/// The sandbox and execution that the operation acts on.
struct Subject {
    sandbox: Option<String>,
    execution: Option<String>,
}

impl Subject {
    fn prepare(api: &Api, operation: Operation, promises: &mut Promises) -> Result<Self> {
        let mut subject = Self { sandbox: None, execution: None };
        if matches!(operation, Operation::Exec | Operation::Stop | Operation::Cancel) {
            let key = format!("ready-{}", fastrand::u64(..));
            let id = create(api, key, promises)?.context("no sandbox was made")?;
            subject.sandbox = Some(id);
        }
        if operation == Operation::Cancel {
            let id = subject.sandbox.as_deref().unwrap_or_default();
            subject.execution = exec(api, id, "long", true, promises)?;
            ensure!(subject.execution.is_some(), "the execution was not started");
        }
        Ok(subject)
    }

    /// Whether the response came: the operation is complete then.
    fn perform(
        &self,
        api: &Api,
        fixture: &Fixture,
        operation: Operation,
        nth: u64,
        promises: &mut Promises,
    ) -> Result<bool> {
        let id = self.sandbox.as_deref().unwrap_or_default();
        Ok(match operation {
            Operation::Create => create(api, format!("asked-{}", fastrand::u64(..)), promises)?.is_some(),
            Operation::Exec => exec(api, id, "short", false, promises)?.is_some(),
            Operation::Cancel => {
                let execution = self.execution.as_deref().unwrap_or_default();
                api.delete(&format!("/api/executions/{execution}?wait=15"), ANSWER)
                    .is_ok_and(|it| it.is_good())
            }
            Operation::Stop => {
                let answer = api.delete(&format!("{SANDBOX}/{id}?wait=15"), ANSWER).ok();
                let is_gone = answer.is_some_and(|answer| answer.status == 200);
                if is_gone {
                    promises.deleted.insert(id.to_owned());
                }
                is_gone
            }
            Operation::Reconcile => {
                let name = format!("v1.sbx_0{nth:025}.1");
                let directory = fixture.data.join("linux/control").join(&name);
                fs::create_dir(&directory).context("could not leave a stray")?;
                let answer = api.post("/api/sandbox/reconcile", None, json!({}), ANSWER);
                let asked = answer.is_ok_and(|answer| answer.is_good());
                asked && Deadline::after(ANSWER).poll(|| (!directory.exists()).then_some(())).is_some()
            }
        })
    }
}

fn create(api: &Api, key: String, promises: &mut Promises) -> Result<Option<String>> {
    let body = json!({ "limits": { "memory_mb": 64 } });
    let request = CreateRequest { key, path: SANDBOX, body: body.clone() };
    let answer = api.post(&format!("{SANDBOX}?wait=15"), Some(&request.key), body, ANSWER).ok();
    match answer.filter(Answer::is_good).and_then(|answer| answer.text("/id")) {
        Some(id) => {
            promises.sandboxes.push(Sandbox { id: id.clone(), request });
            Ok(Some(id))
        }
        None => {
            promises.unanswered.push(request);
            Ok(None)
        }
    }
}

fn exec(
    api: &Api,
    sandbox: &str,
    says: &str,
    is_long: bool,
    promises: &mut Promises,
) -> Result<Option<String>> {
    let script = format!("echo {says}; sleep {}", if is_long { "300" } else { "0.1" });
    let body = json!({ "command": ["sh", "-c", script], "background": is_long });
    let answer = api.post(&format!("{SANDBOX}/{sandbox}/exec?wait=15"), None, body, ANSWER).ok();
    let Some(answer) = answer.filter(Answer::is_good) else { return Ok(None) };
    let id = answer.text("/execution_id").context("the response has no execution id")?;
    let exit_code = (answer.status == 200).then(|| answer.json()["exit_code"].as_i64());
    let command = Command { says: says.to_owned(), exits_with: 0 };
    promises.executions.push(Execution { id: id.clone(), sandbox: sandbox.to_owned(), command, exit_code });
    Ok(Some(id))
}
