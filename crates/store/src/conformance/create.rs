//! Creates: idempotency keys and limits are checked in the transaction that creates.

use pinfold_lifecycle::{
    AdmissionLimits, AdmissionRefusal, Cause, ExecutionId, Generation, Request, SandboxId, Spec, lease_orphan,
};

use super::TestedStore;
use super::fixture::{MEMORY_MB, StoreFixture, command, spec};
use crate::{CreateError, Created, NewSandbox, SandboxFilter, Seq, Version};

const NO_LIMITS: AdmissionLimits =
    AdmissionLimits { sandboxes: None, memory_mb: None, disk_mb: None, processes: None };

pub async fn a_new_sandbox_is_read_back_as_it_was(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    let new = fixture.new_sandbox(1);

    let created = fixture.store.create(new.clone(), NO_LIMITS).await.unwrap();

    let stored = fixture.load(1).await;
    assert_eq!(created, Created::New(stored.version));
    assert_eq!(stored.sandbox, new.transition.sandbox);
    assert_eq!((stored.spec, stored.policy), (new.spec, new.policy));
    assert_ne!(fixture.store.store_id(), 0);
}

pub async fn a_second_sandbox_with_the_same_id_is_refused(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.create_ready(1).await;
    let before = fixture.sandbox(1).await;

    let answer = fixture.store.create(fixture.new_sandbox(1), NO_LIMITS).await;

    assert!(matches!(answer, Err(CreateError::Exists { id: SandboxId(1) })));
    assert_eq!(fixture.sandbox(1).await, before);
}

pub async fn a_name_is_taken_until_its_sandbox_is_proven_gone(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    let named = |id| NewSandbox {
        spec: Spec { name: Some("builder".to_owned()), ..spec(id) }.into(),
        ..fixture.new_sandbox(id)
    };
    fixture.store.create(named(1), NO_LIMITS).await.unwrap();

    let taken = fixture.store.create(named(2), NO_LIMITS).await;
    fixture.request(1, Request::Stop { cause: Cause::StoppedByUser, grace_ms: None }).await;
    let ending = fixture.store.create(named(3), NO_LIMITS).await;
    fixture.stop_succeeds(1).await;
    let freed = fixture.store.create(named(4), NO_LIMITS).await;

    for refused in [taken, ending] {
        assert!(
            matches!(&refused, Err(CreateError::NameTaken { name, id: SandboxId(1) }) if name == "builder"),
            "{refused:?}"
        );
    }
    assert!(matches!(freed, Ok(Created::New(_))), "{freed:?}");
    assert!(fixture.store.load(SandboxId(2)).await.unwrap().is_none());
}

pub async fn the_same_key_gives_the_same_sandbox(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    let full = AdmissionLimits { sandboxes: Some(1), ..NO_LIMITS };
    fixture.store.create(fixture.with_key(1, "key", "request", 1_000), full).await.unwrap();

    let again = fixture.store.create(fixture.with_key(2, "key", "request", 1_000), full).await;

    assert_eq!(again.unwrap(), Created::Existing(SandboxId(1)));
    assert!(fixture.store.load(SandboxId(2)).await.unwrap().is_none());
    assert_eq!(fixture.store.totals().await.unwrap().created, 1);
}

pub async fn a_key_for_another_request_is_refused(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.store.create(fixture.with_key(1, "key", "request", 1_000), NO_LIMITS).await.unwrap();

    let answer = fixture.store.create(fixture.with_key(2, "key", "another", 1_000), NO_LIMITS).await;

    assert!(matches!(answer, Err(CreateError::KeyReused { key }) if key == "key"));
    assert!(fixture.store.load(SandboxId(2)).await.unwrap().is_none());
}

pub async fn an_expired_key_counts_as_unused(tested: &dyn TestedStore) {
    let mut fixture = StoreFixture::new(tested);
    fixture.store.create(fixture.with_key(1, "key", "request", 1_000), NO_LIMITS).await.unwrap();
    fixture.advance_ms(1_000);

    let again = fixture.store.create(fixture.with_key(2, "key", "another", 1_000), NO_LIMITS).await;
    let known = fixture.store.create(fixture.with_key(3, "key", "another", 1_000), NO_LIMITS).await;

    assert!(matches!(again, Ok(Created::New(_))));
    assert_eq!(known.unwrap(), Created::Existing(SandboxId(2)));
}

pub async fn concurrent_creates_do_not_exceed_the_limit(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.create(1).await;
    let limits = AdmissionLimits { sandboxes: Some(6), ..NO_LIMITS };
    let mut tasks = Vec::new();
    for id in 100..164 {
        let (store, new) = (fixture.store.clone(), fixture.new_sandbox(id));
        tasks.push(tokio::spawn(async move { store.create(new, limits).await }));
    }

    let (mut created, mut refused) = (0, 0);
    for task in tasks {
        match task.await.unwrap() {
            Ok(_) => created += 1,
            Err(CreateError::AdmissionRefused(AdmissionRefusal::Sandboxes { present: 6, limit: 6 })) => {
                refused += 1
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    assert_eq!((created, refused), (5, 59));
    assert_eq!(fixture.store.list(SandboxFilter::Present, None, 100).await.unwrap().len(), 6);
    assert_eq!(fixture.store.totals().await.unwrap().present(), 6);
}

pub async fn every_kind_of_limit_holds(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.create(1).await;
    let demand = spec(1).demand();
    let (memory, disk, processes) = (demand.memory_mb, demand.disk_mb, demand.processes);
    let limits = [
        (Some(2 * memory - 1), None, None),
        (None, Some(2 * disk - 1), None),
        (None, None, Some(2 * processes - 1)),
    ];

    for (memory_mb, disk_mb, processes) in limits {
        let limits = AdmissionLimits { sandboxes: None, memory_mb, disk_mb, processes };
        let answer = fixture.store.create(fixture.new_sandbox(2), limits).await;

        assert!(matches!(answer, Err(CreateError::AdmissionRefused(_))), "{answer:?}");
        assert!(fixture.store.load(SandboxId(2)).await.unwrap().is_none());
        assert_eq!(fixture.store.history(Some(SandboxId(2)), Seq(0), 9).await.unwrap(), []);
    }
}

pub async fn an_execution_requested_with_its_sandbox_is_written_with_it(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    let new = fixture.new_sandbox(1);
    let change = fixture.execution(&new.transition.sandbox, 7, Version(0));
    let transition = new.transition.clone().then(change.transition);

    let new = NewSandbox { transition: transition.clone(), commands: change.commands, ..new };
    fixture.store.create(new, NO_LIMITS).await.unwrap();

    assert_eq!(fixture.sandbox(1).await, transition.sandbox);
    let stored = fixture.store.execution(ExecutionId(7)).await.unwrap().unwrap();
    assert_eq!(stored.execution, transition.sandbox.executions[0]);
    assert_eq!(*stored.command, command(7));
}

pub async fn an_orphan_is_never_refused(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.create(1).await;
    let orphan = NewSandbox {
        transition: lease_orphan(SandboxId(2), Generation(4), fixture.ctx()),
        ..fixture.new_sandbox(2)
    };

    let created = fixture.store.create(orphan, AdmissionLimits::default()).await;

    assert!(matches!(created, Ok(Created::New(_))));
    assert_eq!(fixture.sandbox(2).await.generation(), Generation(4));
    assert_eq!(fixture.store.totals().await.unwrap().present(), 2);
}

pub async fn a_sandbox_that_is_proven_gone_makes_room(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    let limits = AdmissionLimits { memory_mb: Some(MEMORY_MB), ..NO_LIMITS };
    fixture.store.create(fixture.new_sandbox(1), limits).await.unwrap();
    let early = fixture.store.create(fixture.new_sandbox(2), limits).await;
    fixture.end(1).await;

    let late = fixture.store.create(fixture.new_sandbox(2), limits).await;

    assert!(matches!(early, Err(CreateError::AdmissionRefused(AdmissionRefusal::Memory { .. }))));
    assert!(late.is_ok());
}
