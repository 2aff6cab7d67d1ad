//! Callers that give up while their request is being written: the request is durable, so it is carried out,
//! once.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pinfold_engine::{ApplyError, CreateRequest};
use pinfold_lifecycle::{Cause, ExecutionKind, ExecutionLimits, Generation, Life, Outcome, Policy, State};
use pinfold_provider::fake::Call;
use pinfold_store::{SandboxFilter, Store, StoreCall, StoreError, StoreLayer};
use pinfold_store_sqlite::{InlineStore, WriteFault};
use tokio::time::{sleep, timeout};

use crate::fakes::slow;
use crate::fixture::{Fixture, MINUTE, SECOND, words};

/// How long a write takes to be acknowledged, and how long an impatient caller waits.
const ACKNOWLEDGED: Duration = Duration::from_millis(50);
const IMPATIENCE: Duration = Duration::from_millis(10);
/// How long an engine's read takes.
const READ: Duration = Duration::from_millis(600);

#[tokio::test(start_paused = true)]
async fn a_stop_whose_caller_gives_up_while_it_is_written_is_carried_out() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_on(LateStore(fixture.store.clone())).await;
    let id = fixture.ready(&engine, Policy::default()).await;

    let given_up = timeout(IMPATIENCE, engine.stop(id, Cause::StoppedByUser, None, MINUTE)).await;
    fixture.until(id, 4 * SECOND, |sandbox| sandbox.is_settled()).await;

    assert!(given_up.is_err());
    assert_eq!(fixture.faults.calls(Call::Stop), 1);
    fixture.assert_nothing_is_left().await;
}

/// Each adoption takes a while, and reconciliation meanwhile finds no instances.
#[tokio::test(start_paused = true)]
async fn sandboxes_lost_in_a_reboot_end_with_that_cause_however_slow_the_adoption() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let mut taken = Vec::new();
    for _ in 0..5 {
        taken.push(fixture.ready(&engine, Policy::default()).await);
    }

    fixture.reboot(engine);
    let _next = fixture.start_engine_on(LateStore(fixture.store.clone())).await;

    for id in taken {
        fixture.until(id, 4 * SECOND, |sandbox| sandbox.is_settled()).await;
        let life = fixture.sandbox(id).await.life;
        assert!(matches!(life, Life::Ended { cause: Cause::HostRestarted, .. }), "{life:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_whose_caller_gives_up_while_it_is_leased_is_launched() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_on(LateStore(fixture.store.clone())).await;

    let given_up = timeout(IMPATIENCE, engine.create(CreateRequest::default())).await;
    let listed = fixture.store.list(SandboxFilter::Present, None, 10).await.unwrap();
    let id = listed[0].id();
    fixture.wait_ready(&engine, id).await.unwrap();

    assert!(given_up.is_err());
    assert_eq!((listed.len(), fixture.instances().len()), (1, 1));
    assert_eq!(fixture.sandbox(id).await.generation(), Generation(1));
}

#[tokio::test(start_paused = true)]
async fn an_execution_whose_caller_gives_up_while_it_is_written_runs() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_on(LateStore(fixture.store.clone())).await;
    let id = fixture.ready(&engine, Policy::default()).await;

    let given_up = timeout(IMPATIENCE, fixture.run(&engine, id, "sleep 3")).await;
    let execution = fixture.sandbox(id).await.executions[0].id;
    let outcome = fixture.outcome(&engine, id, execution).await;

    assert!(given_up.is_err());
    assert_eq!(outcome, Outcome::exited(0));
    assert_eq!(fixture.faults.calls(Call::Exec), 1);
    assert_eq!(fixture.state(id).await, State::Ready);
}

#[tokio::test(start_paused = true)]
async fn concurrent_writes_of_engines_to_one_sandbox_lose_no_request() {
    let fixture = Fixture::new();
    let mut engines = Vec::new();
    for _ in 0..4 {
        engines.push(fixture.start_engine_on(LateStore(fixture.store.clone())).await);
    }
    let id = fixture.ready(&engines[0], Policy::default()).await;

    let wishes = (0..40).map(|turn| fixture.run(&engines[turn % 4], id, "sleep 1"));
    let executions = futures_util::future::join_all(wishes).await;

    for execution in &executions {
        assert_eq!(fixture.outcome(&engines[0], id, *execution).await, Outcome::exited(0));
    }
    assert_eq!(fixture.faults.calls(Call::Exec), 40);
    assert_eq!(fixture.store.executions(id).await.unwrap().len(), 40);
}

#[tokio::test(start_paused = true)]
async fn effects_of_a_result_are_not_cut_off_while_it_is_committed() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_on(LateStore(fixture.store.clone())).await;

    // At many times within one timer interval: the timer may see a write before its writer does.
    for _ in 0..30 {
        fixture.pass_ms(7).await;
        let began = fixture.now();
        fixture.ready(&engine, Policy::default()).await;

        let took = fixture.now() - began;
        assert!(
            took < SECOND,
            "a launch of a few writes took {took} ms: its effects waited for the next heartbeat"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_launch_read_while_running_is_not_repeated_after_the_proof_of_absence() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_on(LateStore(fixture.store.clone())).await;
    let next_sweep_ms = 2 * SECOND + u64::try_from(READ.as_millis()).unwrap();
    fixture.pass_ms(next_sweep_ms - 10).await;

    let id = fixture.ready(&engine, Policy::default()).await;
    fixture.stop(&engine, id).await;
    let proven_at = fixture.now();
    fixture.pass_ms(SECOND).await;

    assert!(
        (next_sweep_ms..next_sweep_ms + 600).contains(&proven_at),
        "proven gone while the launch was being read: {proven_at}"
    );
    assert_eq!(fixture.faults.calls(Call::Start), 1);
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_another_engines_change_is_not_misled_by_a_late_answer() {
    let fixture = Fixture::new();
    let (engine, other) =
        (fixture.start_engine_on(LateStore(fixture.store.clone())).await, fixture.start_engine().await);
    let id = fixture.ready(&engine, Policy::default()).await;

    let waited = async {
        sleep(IMPATIENCE).await;
        let execution = fixture.run(&other, id, "work 500 3").await;
        fixture.outcome(&engine, id, execution).await
    };
    let (kept, outcome) = tokio::join!(engine.keep_alive(id), waited);

    kept.unwrap();
    assert_eq!(outcome, Outcome::exited(3));
}

#[tokio::test(start_paused = true)]
async fn a_stop_by_another_engine_before_the_create_is_acknowledged_is_not_undone() {
    let fixture = Fixture::new();
    let (engine, other) =
        (fixture.start_engine_on(LateStore(fixture.store.clone())).await, fixture.start_engine().await);
    fixture.faults.always(Call::Stop, slow(MINUTE));
    fixture.store.fail_next_writes(1, WriteFault::UnknownWritten);

    let stopped = async {
        sleep(IMPATIENCE).await;
        let rows = fixture.store.list(SandboxFilter::Present, None, 10).await.unwrap();
        let id = rows.first().unwrap().id();
        let _pending = other.stop(id, Cause::StoppedByUser, None, 0).await;
        id
    };
    let (created, id) = tokio::join!(engine.create(CreateRequest::default()), stopped);
    let (kind, limits) = (ExecutionKind::Run, ExecutionLimits::default());
    let refused = engine.execute(id, words("true"), kind, limits, true).await;

    assert_eq!(created.ok(), Some(id));
    assert!(matches!(refused, Err(ApplyError::Refused(_))), "{refused:?}");
    assert!(matches!(fixture.sandbox(id).await.life, Life::Ending { .. }));
}

/// A store whose writes are durable before they are acknowledged, and whose reads take a moment.
struct LateStore(Arc<InlineStore>);

#[async_trait]
impl StoreLayer for LateStore {
    fn inner(&self) -> &dyn Store {
        &*self.0
    }

    async fn around<T: Send, E: From<StoreError> + Send>(
        &self,
        call: StoreCall,
        work: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, E> {
        let answer = work.await;
        match call {
            StoreCall::Create | StoreCall::FillPool | StoreCall::Claim | StoreCall::Commit => {
                sleep(ACKNOWLEDGED).await;
            }
            StoreCall::Load => sleep(Duration::from_millis(1)).await,
            StoreCall::EffectsOfNode => sleep(READ).await,
            _ => {}
        }
        answer
    }
}
