//! The walk along all points: each operation is killed at its first point, at its second, and so on until it gets through;
//! and each time whoever takes over is killed in the same way, until one of them gets through, too.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use pinfold_checker::{Answer, Api, Command, Execution, Patience, Promises, Rows, Sandbox, Stopwatch, Wish};
use serde_json::json;

use super::ground::Ground;
use super::judge::Judge;
use super::server::{Program, Server};
use crate::served::gates::{Call, Point};

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

/// More points than any operation has, and more deaths than any recovery has points.
const MOST: u64 = 60;
const ANSWER: Duration = Duration::from_secs(20);
const SETTLE: Duration = Duration::from_secs(60);
/// One that is still there so long after its operation is done has no point left to die at.
const AFTERWARDS: Duration = Duration::from_millis(700);
const SANDBOX: &str = "/api/sandbox";

/// How often each point was died at, in operations and in recoveries.
#[derive(Default)]
struct Deaths(BTreeMap<String, (u64, u64)>);

/// Runs in an enclosure.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let name =
        options.directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let ground = Ground::prepare(&options.directory, &format!("pinfold-points.{name}"))?;
    let mut deaths = Deaths::default();
    let wanted = Operation::ALL.into_iter().filter(|one| options.operation.is_none_or(|asked| asked == *one));
    for operation in wanted {
        let begun = Stopwatch::start();
        let mut killed = 0;
        while killed < MOST && one(&ground, operation, killed + 1, &mut deaths)? {
            killed += 1;
        }
        ensure!(killed < MOST, "{operation:?} has no end of points");
        println!(
            "{operation:?} was killed at each of its {killed} points, in {:.1} s",
            begun.elapsed().as_secs_f32()
        );
    }
    println!("{:<18} {:>10} {:>10}", "point", "operation", "recovery");
    for (point, (operations, recoveries)) in &deaths.0 {
        println!("{point:<18} {operations:>10} {recoveries:>10}");
    }
    if options.operation.is_none() {
        deaths.are_complete()?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Deaths {
    fn note(&mut self, server: &Server, in_recovery: bool) {
        let count = self.0.entry(server.last_word().unwrap_or_else(|| "unknown".into())).or_default();
        if in_recovery { count.1 += 1 } else { count.0 += 1 }
    }

    /// What concerns the pool is left to chance.
    fn are_complete(&self) -> Result<()> {
        let is_walked = |point: &Point| !matches!(point.call, Call::Fill | Call::Claim | Call::Extend);
        let missed: Vec<String> = Point::all()
            .filter(is_walked)
            .map(|point| point.to_string())
            .filter(|name| !self.0.contains_key(name))
            .collect();
        ensure!(missed.is_empty(), "nobody died at {missed:?}");
        Ok(())
    }
}

/// Whether it was killed. If not, it got through before that passing.
fn one(ground: &Ground, operation: Operation, passing: u64, deaths: &mut Deaths) -> Result<bool> {
    let mut server = Server::start(ground, &gated(None))?;
    let mut promises = Promises::default();
    let subject = Subject::prepare(&server.api, operation, &mut promises)?;
    server.tell(&format!("die any:{passing}"))?;
    let is_done = subject.undergo(&server.api, ground, operation, passing, &mut promises)?;
    let within = if is_done { AFTERWARDS } else { ANSWER };
    let killed = server.dies_within(within);
    if killed {
        deaths.note(&server, false);
    } else {
        ensure!(is_done, "{operation:?} does not get through, and nobody was killed");
        server.kill()?;
    }
    drop(server);
    let server = recover(ground, killed, deaths)?;
    let judge = Judge::of(ground, SETTLE)?;
    let mut found = judge.while_live(&server, &mut promises);
    if found.is_empty() {
        found = judge.when_all_ended(&server, &mut promises);
    }
    for complaint in &found {
        println!("  {complaint}");
    }
    ensure!(found.is_empty(), "{operation:?} killed at passing {passing} does not hold");
    let status = server.end()?;
    ensure!(status.success(), "the server ended with {status}");
    Ok(killed)
}

/// Servers one after another, each killed at one point later than the one before, until one gets through.
fn recover(ground: &Ground, is_killed: bool, deaths: &mut Deaths) -> Result<Server> {
    let mut passing = 1;
    loop {
        let die = (is_killed && passing <= MOST).then_some(passing);
        let mut server = Server::start(ground, &gated(die))?;
        let settled = Patience::of(SETTLE).until(|| {
            let is_dead = server.is_dead();
            (is_dead || is_settled(&ground.data)).then_some(is_dead)
        });
        match settled {
            None => bail!("it is not settled after {SETTLE:?}"),
            Some(false) if !server.dies_within(AFTERWARDS) => return replace(ground, server),
            Some(_) => {}
        }
        ensure!(server.dies_within(ANSWER), "it did not die");
        deaths.note(&server, true);
        passing += 1;
    }
}

/// Whoever was to die later must not do so while others look.
fn replace(ground: &Ground, mut server: Server) -> Result<Server> {
    server.kill()?;
    drop(server);
    let server = Server::start(ground, &gated(None))?;
    Patience::of(SETTLE)
        .until(|| is_settled(&ground.data).then_some(()))
        .context("it does not settle again")?;
    Ok(server)
}

/// Nothing is on its way: bodies are live or gone, and executions have ended or run.
fn is_settled(data: &Path) -> bool {
    Rows::read(data).is_ok_and(|rows| {
        let open = rows.sandboxes.iter().filter(|row| !row.is_settled);
        let are_live =
            open.into_iter().all(|row| row.state.pointer("/lease/live/check") == Some(&json!(null)));
        are_live && rows.open_executions.iter().all(|open| open.is_running)
    })
}

fn gated(die: Option<u64>) -> Program {
    let mut arguments = vec!["--cold".to_owned()];
    arguments.extend(die.into_iter().flat_map(|passing| ["--die".to_owned(), format!("any:{passing}")]));
    Program::Gated(arguments)
}

/// What the operation is done to.
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
            ensure!(subject.execution.is_some(), "nothing runs");
        }
        Ok(subject)
    }

    /// Whether the answer came: all that the operation waits for is done then.
    fn undergo(
        &self,
        api: &Api,
        ground: &Ground,
        operation: Operation,
        passing: u64,
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
                let mark = format!("v1.sbx_0{passing:025}.1");
                let place = ground.data.join("linux/control").join(&mark);
                fs::create_dir(&place).context("could not leave a stray")?;
                let answer = api.post("/api/sandbox/reconcile", None, json!({}), ANSWER);
                let asked = answer.is_ok_and(|answer| answer.is_good());
                asked && Patience::of(ANSWER).until(|| (!place.exists()).then_some(())).is_some()
            }
        })
    }
}

fn create(api: &Api, key: String, promises: &mut Promises) -> Result<Option<String>> {
    let what = json!({ "limits": { "memory_mb": 64 } });
    let wish = Wish { key, path: SANDBOX, what: what.clone() };
    let answer = api.post(&format!("{SANDBOX}?wait=15"), Some(&wish.key), what, ANSWER).ok();
    match answer.filter(Answer::is_good).and_then(|answer| answer.text("/id")) {
        Some(id) => {
            promises.sandboxes.push(Sandbox { id: id.clone(), wish });
            Ok(Some(id))
        }
        None => {
            promises.unanswered.push(wish);
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
    let what = json!({ "command": ["sh", "-c", script], "background": is_long });
    let answer = api.post(&format!("{SANDBOX}/{sandbox}/exec?wait=15"), None, what, ANSWER).ok();
    let Some(answer) = answer.filter(Answer::is_good) else { return Ok(None) };
    let id = answer.text("/execution_id").context("an execution without a name")?;
    let exit_code = (answer.status == 200).then(|| answer.json()["exit_code"].as_i64());
    let command = Command { says: says.to_owned(), exits_with: 0 };
    promises.executions.push(Execution { id: id.clone(), sandbox: sandbox.to_owned(), command, exit_code });
    Ok(Some(id))
}
