//! The program that is killed: it drives sandboxes through their lives and says, with one write each, what the store
//! has acknowledged. It decides from what it loads, so it also goes on where another one was killed.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use pinfold_lifecycle::{
    Event, ExecutionState, Lease, Life, Outcome, ProbeResult, Request, Sandbox, SandboxId, StopOutcome,
};
use pinfold_lifecycle::{request, step};
use pinfold_store::conformance::fixture::{NODE, NOON, StoreFixture, change, receipt};
use pinfold_store::{Change, CommitError, CreateError, Row, StoreError, StoredSandbox, Version};
use pinfold_store_sqlite::SqliteStore;

/// How much it writes.
#[derive(Clone, Copy)]
pub(crate) struct Work {
    /// The number of the first task. Two processes do not work on the same sandboxes.
    pub(crate) first: u128,
    pub(crate) tasks: u128,
    /// Transitions of each task.
    pub(crate) turns: u32,
}

const EXECUTIONS: usize = 2;

pub(crate) fn run(directory: &Path, work: Work) {
    // Whoever started it, the test or strace, does not leave it behind.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
    let store = match SqliteStore::open(directory) {
        Ok(store) => Arc::new(store),
        Err(error) => return say(&format!("unopened {error}")),
    };
    say("opened");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (work.first..work.first + work.tasks)
            .map(|task| tokio::spawn(drive(store.clone(), task, work.turns)))
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    drop(store);
    say("done");
}

/// One write, so that it is there whole or not at all.
fn say(line: &str) {
    let line = format!("\n{line}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

async fn drive(store: Arc<SqliteStore>, task: u128, turns: u32) {
    let world = StoreFixture { store, now: NOON, node: NODE, policy: pinfold_lifecycle::Policy::default() };
    let mut current = task << 32;
    let mut token = 0;
    for _ in 0..turns {
        token += 1;
        current = take_turn(&world, current, &format!("token-{task}-{token}-")).await;
    }
}

/// Says which sandbox comes next.
async fn take_turn(world: &StoreFixture, id: u128, token: &str) -> u128 {
    let row = match world.store.load(SandboxId(id)).await {
        Ok(row) => row,
        Err(error) => panic!("a read failed: {error:?}"),
    };
    match row {
        None => create(world, id, token).await,
        Some(Row::Readable(stored)) if stored.sandbox.is_settled() => return id + 1,
        Some(Row::Readable(stored)) => commit(world, id, *stored, token).await,
        Some(Row::Unreadable(row)) => panic!("unreadable: {row:?}"),
    }
    id
}

async fn create(world: &StoreFixture, id: u128, token: &str) {
    let mut new = world.new_sandbox(id);
    Arc::make_mut(&mut new.spec).name = Some(token.into());
    match world.store.create(new, Default::default()).await {
        Ok(pinfold_store::Created::New(version)) => acknowledged(id, version, false, token),
        Ok(known) => panic!("{known:?} without a key"),
        Err(CreateError::Store(error)) => look_again(world, id, None, error).await,
        Err(error) => panic!("{error:?}"),
    }
}

async fn commit(world: &StoreFixture, id: u128, stored: StoredSandbox, token: &str) {
    let version = stored.version;
    let change = next(world, stored, token).await;
    let forgotten_next = change.transition.sandbox.forget;
    let token = if change.commands.is_empty() { "-" } else { token };
    match world.store.commit(change).await {
        Ok(version) => acknowledged(id, version, forgotten_next, token),
        Err(CommitError::Store(error)) => look_again(world, id, Some(version), error).await,
        Err(error) => panic!("{error:?}"),
    }
}

fn acknowledged(id: u128, version: Version, may_be_gone: bool, token: &str) {
    say(&format!("ack {id} {} {may_be_gone} {token}", version.0));
}

/// An error that says that nothing was written must be true.
async fn look_again(world: &StoreFixture, id: u128, before: Option<Version>, error: StoreError) {
    let now = match world.store.load(SandboxId(id)).await.unwrap() {
        Some(Row::Readable(stored)) => Some(stored.version),
        Some(Row::Unreadable(row)) => panic!("unreadable: {row:?}"),
        None => None,
    };
    let kind = match error {
        StoreError::DiskFull { .. } => "full",
        StoreError::Busy { .. } => "busy",
        StoreError::Failed { .. } => "failed",
        StoreError::OutcomeUnknown { .. } => return say(&format!("refused unclear {error}")),
        StoreError::Closed => panic!("closed"),
    };
    assert_eq!(now, before, "{error:?} says that nothing was written");
    say(&format!("refused {kind} {error}"));
}

async fn next(world: &StoreFixture, stored: StoredSandbox, token: &str) -> Change {
    let StoredSandbox { sandbox, version, .. } = stored;
    let ticket = sandbox.last_fence;
    let fact = |event| change(step(&sandbox, event, world.ctx()), version);
    let wish = |wish| change(request(&sandbox, wish, world.ctx()).unwrap(), version);
    match (&sandbox.life, &sandbox.lease) {
        (_, Lease::Starting { step, .. }) => match step {
            pinfold_lifecycle::StartStep::Launch => fact(Event::Launched { fence: ticket }),
            _ => fact(Event::Probed { fence: ticket, result: ProbeResult::Passed }),
        },
        (Life::Wanted, Lease::Live(_)) => match running(&sandbox, ticket) {
            Some(event) => fact(event),
            None if world.store.executions(sandbox.id).await.unwrap().len() < EXECUTIONS => {
                execute(world, &sandbox, version, token)
            }
            // Every other sandbox is forgotten at its end.
            None if sandbox.id.0 % 2 == 1 => wish(Request::Forget),
            None => wish(Request::Stop { cause: pinfold_lifecycle::Cause::StoppedByUser, forced: false }),
        },
        (_, Lease::Stopping { .. }) => fact(Event::Stopped {
            fence: ticket,
            outcome: StopOutcome::Gone(Box::new(receipt(&sandbox, world.now))),
        }),
        other => panic!("it does not come to this: {other:?}"),
    }
}

fn running(sandbox: &Sandbox, ticket: pinfold_lifecycle::Fence) -> Option<Event> {
    let execution = sandbox.executions.first()?;
    Some(match execution.state {
        ExecutionState::Starting { .. } => Event::ExecutionStarted { fence: ticket, execution: execution.id },
        _ => Event::ExecutionEnded { fence: ticket, execution: execution.id, outcome: Outcome::exited(0) },
    })
}

fn execute(world: &StoreFixture, sandbox: &Sandbox, version: Version, token: &str) -> Change {
    // Never used before: the version of the row has not been either.
    let id = (sandbox.id.0 << 64) | u128::from(version.0.unsigned_abs());
    let mut change = world.execution(sandbox, id, version);
    let command = pinfold_lifecycle::Command { argv: vec![token.into()], ..Default::default() };
    change.commands[0].command = Arc::new(command);
    change
}
