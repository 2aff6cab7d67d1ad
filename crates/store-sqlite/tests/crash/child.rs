//! The process that is killed. It drives sandboxes through their lifecycle and prints each acknowledgement of the store
//! with one write. It decides from the rows it loads, so it continues where an earlier process was killed.

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

/// The amount of work.
#[derive(Clone, Copy)]
pub(crate) struct Work {
    /// The number of the first task. Processes with distinct tasks work on distinct sandboxes.
    pub(crate) first: u128,
    pub(crate) tasks: u128,
    /// Transitions of each task.
    pub(crate) transitions: u32,
}

const EXECUTIONS: usize = 2;

pub(crate) fn run(directory: &Path, work: Work) {
    // It must not outlive its parent, which is the test or strace.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
    let store = match SqliteStore::open(directory) {
        Ok(store) => Arc::new(store),
        Err(error) => return print_line(&format!("unopened {error}")),
    };
    print_line("opened");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (work.first..work.first + work.tasks)
            .map(|task| tokio::spawn(drive(store.clone(), task, work.transitions)))
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    drop(store);
    print_line("done");
}

/// Prints a line with one write, so that a kill cannot cut it.
fn print_line(line: &str) {
    let line = format!("\n{line}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

async fn drive(store: Arc<SqliteStore>, task: u128, transitions: u32) {
    let fixture = StoreFixture { store, now: NOON, node: NODE, policy: pinfold_lifecycle::Policy::default() };
    let mut current = task << 32;
    let mut token = 0;
    for _ in 0..transitions {
        token += 1;
        current = next_transition(&fixture, current, &format!("token-{task}-{token}-")).await;
    }
}

/// Makes one transition of a sandbox, and returns the id of the sandbox for the next one.
async fn next_transition(fixture: &StoreFixture, id: u128, token: &str) -> u128 {
    let row = match fixture.store.load(SandboxId(id)).await {
        Ok(row) => row,
        Err(error) => panic!("a read failed: {error:?}"),
    };
    match row {
        None => create(fixture, id, token).await,
        Some(Row::Readable(stored)) if stored.sandbox.is_settled() => return id + 1,
        Some(Row::Readable(stored)) => commit(fixture, id, *stored, token).await,
        Some(Row::Unreadable(row)) => panic!("unreadable: {row:?}"),
    }
    id
}

async fn create(fixture: &StoreFixture, id: u128, token: &str) {
    let mut new = fixture.new_sandbox(id);
    Arc::make_mut(&mut new.spec).name = Some(token.into());
    match fixture.store.create(new, Default::default()).await {
        Ok(pinfold_store::Created::New(version)) => acknowledged(id, version, false, token),
        Ok(known) => panic!("{known:?} without a key"),
        Err(CreateError::Store(error)) => check_not_written(fixture, id, None, error).await,
        Err(error) => panic!("{error:?}"),
    }
}

async fn commit(fixture: &StoreFixture, id: u128, stored: StoredSandbox, token: &str) {
    let version = stored.version;
    let change = next(fixture, stored, token).await;
    let may_be_deleted = change.transition.sandbox.forget;
    let token = if change.commands.is_empty() { "-" } else { token };
    match fixture.store.commit(change).await {
        Ok(version) => acknowledged(id, version, may_be_deleted, token),
        Err(CommitError::Store(error)) => check_not_written(fixture, id, Some(version), error).await,
        Err(error) => panic!("{error:?}"),
    }
}

fn acknowledged(id: u128, version: Version, may_be_gone: bool, token: &str) {
    print_line(&format!("ack {id} {} {may_be_gone} {token}", version.0));
}

/// Checks that nothing was written, unless the error leaves the outcome unknown.
async fn check_not_written(fixture: &StoreFixture, id: u128, before: Option<Version>, error: StoreError) {
    let now = match fixture.store.load(SandboxId(id)).await.unwrap() {
        Some(Row::Readable(stored)) => Some(stored.version),
        Some(Row::Unreadable(row)) => panic!("unreadable: {row:?}"),
        None => None,
    };
    let kind = match error {
        StoreError::DiskFull { .. } => "full",
        StoreError::Busy { .. } => "busy",
        StoreError::Failed { .. } => "failed",
        StoreError::Unwritable { .. } | StoreError::KeyLost { .. } => "unwritable",
        StoreError::OutcomeUnknown { .. } => return print_line(&format!("refused unknown {error}")),
        StoreError::Closed => panic!("closed"),
    };
    assert_eq!(now, before, "{error:?} means that nothing was written");
    print_line(&format!("refused {kind} {error}"));
}

async fn next(fixture: &StoreFixture, stored: StoredSandbox, token: &str) -> Change {
    let StoredSandbox { sandbox, version, .. } = stored;
    let fence = sandbox.last_fence;
    let observed = |event| change(step(&sandbox, event, fixture.ctx()), version);
    let requested = |wanted| change(request(&sandbox, wanted, fixture.ctx()).unwrap(), version);
    match (&sandbox.life, &sandbox.lease) {
        (_, Lease::Starting { step, .. }) => match step {
            pinfold_lifecycle::StartStep::Launch => observed(Event::Launched { fence }),
            _ => observed(Event::Probed { fence, result: ProbeResult::Passed }),
        },
        (Life::Wanted, Lease::Live(_)) => match running(&sandbox, fence) {
            Some(event) => observed(event),
            None if fixture.store.executions(sandbox.id).await.unwrap().len() < EXECUTIONS => {
                execute(fixture, &sandbox, version, token)
            }
            // The record of every other sandbox is deleted at its end.
            None if sandbox.id.0 % 2 == 1 => requested(Request::Forget),
            None => {
                requested(Request::Stop { cause: pinfold_lifecycle::Cause::StoppedByUser, grace_ms: None })
            }
        },
        (_, Lease::Stopping { .. }) => observed(Event::Stopped {
            fence,
            outcome: StopOutcome::Gone(Box::new(receipt(&sandbox, fixture.now))),
        }),
        other => panic!("unexpected state: {other:?}"),
    }
}

fn running(sandbox: &Sandbox, fence: pinfold_lifecycle::Fence) -> Option<Event> {
    let execution = sandbox.executions.first()?;
    Some(match execution.state {
        ExecutionState::Starting { .. } => Event::ExecutionStarted { fence, execution: execution.id },
        _ => Event::ExecutionEnded { fence, execution: execution.id, outcome: Outcome::exited(0) },
    })
}

fn execute(fixture: &StoreFixture, sandbox: &Sandbox, version: Version, token: &str) -> Change {
    // Unique, because row versions are never reused.
    let id = (sandbox.id.0 << 64) | u128::from(version.0.unsigned_abs());
    let mut change = fixture.execution(sandbox, id, version);
    let command = pinfold_lifecycle::Command { argv: vec![token.into()], ..Default::default() };
    change.commands[0].command = Arc::new(command);
    change
}
