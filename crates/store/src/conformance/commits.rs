//! Promises about commits: guarded by version and generation, whole or not at all.

use pinfold_lifecycle::{Cause, Event, ExecutionId, Outcome, Request, SandboxId, request, step};

use super::Subject;
use super::world::{World, change, command};
use crate::{CommitError, Seq, Stored, Version};

pub async fn a_commit_is_read_back_as_it_was(subject: &dyn Subject) {
    let world = World::over(subject);
    world.create(1).await;
    let Stored { sandbox, version, .. } = world.load(1).await;
    let transition = step(&sandbox, Event::Launched { ticket: sandbox.last_ticket }, world.ctx());

    let committed = world.commit(transition.clone(), version).await;

    let stored = world.load(1).await;
    assert_eq!(stored.sandbox, transition.sandbox);
    assert_eq!(stored.version, committed);
    assert!(committed > version);
}

pub async fn a_commit_on_an_old_version_changes_nothing(subject: &dyn Subject) {
    let world = World::over(subject);
    world.create(1).await;
    let old = world.load(1).await;
    let current = world.step(1, Event::Launched { ticket: old.sandbox.last_ticket }).await;
    let before = (world.sandbox(1).await, world.store.changes(Seq(0)).await.unwrap());
    let wish = Request::Stop { cause: Cause::StoppedByUser, forced: true };

    let late = change(request(&old.sandbox, wish, world.ctx()).unwrap(), old.version);
    let answer = world.store.commit(late).await;

    assert!(matches!(answer, Err(CommitError::Conflict { current: told }) if told == current));
    assert_eq!((world.sandbox(1).await, world.store.changes(Seq(0)).await.unwrap()), before);
}

pub async fn a_commit_on_what_is_not_there_is_told_so(subject: &dyn Subject) {
    let world = World::over(subject);
    let unknown = world.new_sandbox(7).transition;

    let answer = world.store.commit(change(unknown, Version(1))).await;

    assert!(matches!(answer, Err(CommitError::Missing)));
    assert!(world.store.load(SandboxId(7)).await.unwrap().is_none());
}

pub async fn a_lower_generation_does_not_land(subject: &dyn Subject) {
    let world = World::over(subject);
    world.live(1).await;
    let first = world.sandbox(1).await;
    world.ask(1, Request::Restart { cause: Cause::ProbeFailed }).await;
    world.gone(1).await;
    let stored = world.load(1).await;
    assert!(stored.sandbox.generation() > first.generation());

    let older = step(&first, Event::TimePassed, world.ctx());
    let answer = world.store.commit(change(older, stored.version)).await;

    assert!(matches!(answer, Err(CommitError::Conflict { .. })));
    assert_eq!(world.sandbox(1).await, stored.sandbox);
}

pub async fn of_many_commits_on_one_version_one_lands(subject: &dyn Subject) {
    let world = World::over(subject);
    world.live(1).await;
    let stored = world.load(1).await;
    let mut tasks = Vec::new();
    for execution in 1..=32 {
        let change = world.execution(&stored.sandbox, execution, stored.version);
        let store = world.store.clone();
        tasks.push(tokio::spawn(async move { store.commit(change).await.is_ok() }));
    }

    let mut landed = 0;
    for task in tasks {
        landed += usize::from(task.await.unwrap());
    }

    assert_eq!(landed, 1);
    assert_eq!(world.sandbox(1).await.executions.len(), 1);
    assert_eq!(world.store.executions(SandboxId(1)).await.unwrap().len(), 1);
}

pub async fn a_commit_that_is_refused_leaves_no_half_of_itself(subject: &dyn Subject) {
    let world = World::over(subject);
    world.live(1).await;
    let stored = world.load(1).await;
    let seen = world.store.changes(Seq(0)).await.unwrap().seen;
    let mut change = world.execution(&stored.sandbox, 5, stored.version);
    // It is refused for this only after the state and the history were written.
    change.commands.clear();

    let answer = world.store.commit(change).await;

    assert!(matches!(answer, Err(CommitError::Store(_))));
    assert_eq!(world.sandbox(1).await, stored.sandbox);
    assert_eq!(world.store.changes(seen).await.unwrap().sandboxes, []);
    assert_eq!(world.store.history(None, seen, 10).await.unwrap(), []);
}

pub async fn versions_are_never_used_again(subject: &dyn Subject) {
    let world = World::over(subject);
    let first = world.create(1).await;
    world.ask(1, Request::Forget).await;
    let last = world.gone(1).await;
    assert!(world.store.load(SandboxId(1)).await.unwrap().is_none());

    let again = world.create(1).await;

    assert!(first < last && last < again);
}

pub async fn executions_come_back_in_the_order_of_arrival(subject: &dyn Subject) {
    let world = World::over(subject);
    world.live(1).await;
    for execution in [9, 3, 7] {
        world.execute(1, execution).await;
    }
    let sandbox = world.sandbox(1).await;
    let ids: Vec<_> = sandbox.executions.iter().map(|execution| execution.id.0).collect();

    let stored = world.store.executions(SandboxId(1)).await.unwrap();

    assert_eq!(ids, [9, 3, 7]);
    let executions: Vec<_> = stored.iter().map(|stored| stored.execution.clone()).collect();
    assert_eq!(executions, sandbox.executions);
    assert_eq!(*stored[1].command, command(3));
}

pub async fn an_execution_can_be_read_after_its_end(subject: &dyn Subject) {
    let world = World::over(subject);
    world.live(1).await;
    world.execute(1, 5).await;
    run_to_its_end(&world, 1, 5).await;
    world.end(1).await;

    let stored = world.store.execution(ExecutionId(5)).await.unwrap().unwrap();

    assert_eq!(world.sandbox(1).await.executions, []);
    assert_eq!(stored.sandbox, SandboxId(1));
    assert_eq!(stored.execution.outcome(), Some(&Outcome::exited(0)));
    assert_eq!(*stored.command, command(5));
    assert!(world.store.execution(ExecutionId(6)).await.unwrap().is_none());
}

pub async fn an_outcome_is_written_once(subject: &dyn Subject) {
    let world = World::over(subject);
    world.live(1).await;
    world.execute(1, 5).await;
    run_to_its_end(&world, 1, 5).await;
    let stored = world.load(1).await;

    let again = world.execution(&stored.sandbox, 5, stored.version);
    let answer = world.store.commit(again).await;

    assert!(matches!(answer, Err(CommitError::Store(_))));
    let kept = world.store.execution(ExecutionId(5)).await.unwrap().unwrap();
    assert_eq!(kept.execution.outcome(), Some(&Outcome::exited(0)));
}

pub async fn what_is_to_be_forgotten_is_deleted_and_its_history_kept(subject: &dyn Subject) {
    let world = World::over(subject);
    world.live(1).await;
    world.execute(1, 5).await;
    world.ask(1, Request::Forget).await;
    assert!(world.sandbox(1).await.forget, "not before it is proven gone");

    world.gone(1).await;

    assert!(world.store.load(SandboxId(1)).await.unwrap().is_none());
    assert!(world.store.execution(ExecutionId(5)).await.unwrap().is_none());
    assert_eq!(world.store.list(crate::Filter::All, None, 10).await.unwrap().len(), 0);
    let history = world.store.history(Some(SandboxId(1)), Seq(0), 100).await.unwrap();
    assert!(history.len() > 5, "{history:?}");
    let totals = world.store.totals().await.unwrap();
    assert_eq!((totals.created, totals.destroyed), (1, 1));
}

async fn run_to_its_end(world: &World, sandbox: u128, execution: u128) {
    let (ticket, id) = (world.ticket(sandbox).await, ExecutionId(execution));
    world.step(sandbox, Event::ExecutionStarted { ticket, execution: id }).await;
    let (ticket, outcome) = (world.ticket(sandbox).await, Outcome::exited(0));
    let ended = Event::ExecutionEnded { ticket, execution: id, outcome };
    world.step(sandbox, ended).await;
}
