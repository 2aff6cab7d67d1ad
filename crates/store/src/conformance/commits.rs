//! Commits: guarded by version and generation, and atomic.

use pinfold_lifecycle::{Cause, Event, ExecutionId, Outcome, Request, SandboxId, request, step};

use super::TestedStore;
use super::fixture::{StoreFixture, change, command};
use crate::{CommitError, Seq, StoredSandbox, Version};

pub async fn a_commit_is_read_back_as_it_was(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.create(1).await;
    let StoredSandbox { sandbox, version, .. } = fixture.load(1).await;
    let transition = step(&sandbox, Event::Launched { fence: sandbox.last_fence }, fixture.ctx());

    let committed = fixture.commit(transition.clone(), version).await;

    let stored = fixture.load(1).await;
    assert_eq!(stored.sandbox, transition.sandbox);
    assert_eq!(stored.version, committed);
    assert!(committed > version);
}

pub async fn a_commit_on_an_old_version_changes_nothing(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.create(1).await;
    let old = fixture.load(1).await;
    let current = fixture.step(1, Event::Launched { fence: old.sandbox.last_fence }).await;
    let before = (fixture.sandbox(1).await, fixture.store.changes(Seq(0)).await.unwrap());
    let wanted = Request::Stop { cause: Cause::StoppedByUser, grace_ms: Some(0) };

    let late = change(request(&old.sandbox, wanted, fixture.ctx()).unwrap(), old.version);
    let answer = fixture.store.commit(late).await;

    assert!(matches!(answer, Err(CommitError::Conflict { current: listed }) if listed == current));
    assert_eq!((fixture.sandbox(1).await, fixture.store.changes(Seq(0)).await.unwrap()), before);
}

pub async fn a_commit_on_a_missing_sandbox_is_refused(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    let unknown = fixture.new_sandbox(7).transition;

    let answer = fixture.store.commit(change(unknown, Version(1))).await;

    assert!(matches!(answer, Err(CommitError::Missing)));
    assert!(fixture.store.load(SandboxId(7)).await.unwrap().is_none());
}

pub async fn a_commit_with_a_lower_generation_is_refused(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.create_ready(1).await;
    let first = fixture.sandbox(1).await;
    fixture.request(1, Request::Restart { cause: Cause::ProbeFailed }).await;
    fixture.stop_succeeds(1).await;
    let stored = fixture.load(1).await;
    assert!(stored.sandbox.generation() > first.generation());

    let older = step(&first, Event::TimePassed, fixture.ctx());
    let answer = fixture.store.commit(change(older, stored.version)).await;

    assert!(matches!(answer, Err(CommitError::Conflict { .. })));
    assert_eq!(fixture.sandbox(1).await, stored.sandbox);
}

pub async fn of_many_commits_on_one_version_one_succeeds(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.create_ready(1).await;
    let stored = fixture.load(1).await;
    let mut tasks = Vec::new();
    for execution in 1..=32 {
        let change = fixture.execution(&stored.sandbox, execution, stored.version);
        let store = fixture.store.clone();
        tasks.push(tokio::spawn(async move { store.commit(change).await.is_ok() }));
    }

    let mut succeeded = 0;
    for task in tasks {
        succeeded += usize::from(task.await.unwrap());
    }

    assert_eq!(succeeded, 1);
    assert_eq!(fixture.sandbox(1).await.executions.len(), 1);
    assert_eq!(fixture.store.executions(SandboxId(1)).await.unwrap().len(), 1);
}

pub async fn a_refused_commit_writes_nothing(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.create_ready(1).await;
    let stored = fixture.load(1).await;
    let seen = fixture.store.changes(Seq(0)).await.unwrap().up_to;
    let mut change = fixture.execution(&stored.sandbox, 5, stored.version);
    // The store refuses it only after it has written the state and the history.
    change.commands.clear();

    let answer = fixture.store.commit(change).await;

    assert!(matches!(answer, Err(CommitError::Store(_))));
    assert_eq!(fixture.sandbox(1).await, stored.sandbox);
    assert_eq!(fixture.store.changes(seen).await.unwrap().sandboxes, []);
    assert_eq!(fixture.store.history(None, seen, 10).await.unwrap(), []);
}

pub async fn versions_are_never_used_again(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    let first = fixture.create(1).await;
    fixture.request(1, Request::Forget).await;
    let last = fixture.stop_succeeds(1).await;
    assert!(fixture.store.load(SandboxId(1)).await.unwrap().is_none());

    let again = fixture.create(1).await;

    assert!(first < last && last < again);
}

pub async fn executions_are_listed_in_the_order_of_arrival(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.create_ready(1).await;
    for execution in [9, 3, 7] {
        fixture.execute(1, execution).await;
    }
    let sandbox = fixture.sandbox(1).await;
    let ids: Vec<_> = sandbox.executions.iter().map(|execution| execution.id.0).collect();

    let stored = fixture.store.executions(SandboxId(1)).await.unwrap();

    assert_eq!(ids, [9, 3, 7]);
    let executions: Vec<_> = stored.iter().map(|stored| stored.execution.clone()).collect();
    assert_eq!(executions, sandbox.executions);
    assert_eq!(*stored[1].command, command(3));
}

pub async fn an_execution_can_be_read_after_its_end(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.create_ready(1).await;
    fixture.execute(1, 5).await;
    run_to_its_end(&fixture, 1, 5).await;
    fixture.end(1).await;

    let stored = fixture.store.execution(ExecutionId(5)).await.unwrap().unwrap();

    assert_eq!(fixture.sandbox(1).await.executions, []);
    assert_eq!(stored.sandbox, SandboxId(1));
    assert_eq!(stored.execution.outcome(), Some(&Outcome::exited(0)));
    assert_eq!(*stored.command, command(5));
    assert!(fixture.store.execution(ExecutionId(6)).await.unwrap().is_none());
}

pub async fn an_outcome_is_written_once(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.create_ready(1).await;
    fixture.execute(1, 5).await;
    run_to_its_end(&fixture, 1, 5).await;
    let stored = fixture.load(1).await;

    let again = fixture.execution(&stored.sandbox, 5, stored.version);
    let answer = fixture.store.commit(again).await;

    assert!(matches!(answer, Err(CommitError::Store(_))));
    let kept = fixture.store.execution(ExecutionId(5)).await.unwrap().unwrap();
    assert_eq!(kept.execution.outcome(), Some(&Outcome::exited(0)));
}

pub async fn a_sandbox_to_be_forgotten_is_deleted_and_its_history_kept(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.create_ready(1).await;
    fixture.execute(1, 5).await;
    fixture.request(1, Request::Forget).await;
    assert!(fixture.sandbox(1).await.forget, "not before it is proven gone");

    fixture.stop_succeeds(1).await;

    assert!(fixture.store.load(SandboxId(1)).await.unwrap().is_none());
    assert!(fixture.store.execution(ExecutionId(5)).await.unwrap().is_none());
    assert_eq!(fixture.store.list(crate::SandboxFilter::All, None, 10).await.unwrap().len(), 0);
    let history = fixture.store.history(Some(SandboxId(1)), Seq(0), 100).await.unwrap();
    assert!(history.len() > 5, "{history:?}");
    let totals = fixture.store.totals().await.unwrap();
    assert_eq!((totals.created, totals.destroyed), (1, 1));
}

async fn run_to_its_end(fixture: &StoreFixture, sandbox: u128, execution: u128) {
    let (fence, id) = (fixture.last_fence(sandbox).await, ExecutionId(execution));
    fixture.step(sandbox, Event::ExecutionStarted { fence, execution: id }).await;
    let (fence, outcome) = (fixture.last_fence(sandbox).await, Outcome::exited(0));
    let ended = Event::ExecutionEnded { fence, execution: id, outcome };
    fixture.step(sandbox, ended).await;
}
