//! Promises about new sandboxes: keys and limits are decided in the transaction that creates.

use pinfold_lifecycle::{AdmissionLimits, ExecutionId, Generation, SandboxId, Scarcity, lease_orphan};

use super::Subject;
use super::world::{MEMORY_MB, World, command, spec};
use crate::{CreateError, Created, Filter, NewSandbox, Seq, Version};

const NO_LIMITS: AdmissionLimits =
    AdmissionLimits { sandboxes: None, memory_mb: None, disk_mb: None, processes: None };

pub async fn a_new_sandbox_is_read_back_as_it_was(subject: &dyn Subject) {
    let world = World::over(subject);
    let new = world.new_sandbox(1);

    let created = world.store.create(new.clone(), NO_LIMITS).await.unwrap();

    let stored = world.load(1).await;
    assert_eq!(created, Created::New(stored.version));
    assert_eq!(stored.sandbox, new.transition.sandbox);
    assert_eq!((stored.spec, stored.policy), (new.spec, new.policy));
    assert_ne!(world.store.instance(), 0);
}

pub async fn a_second_sandbox_with_the_same_id_is_refused(subject: &dyn Subject) {
    let world = World::over(subject);
    world.live(1).await;
    let before = world.sandbox(1).await;

    let answer = world.store.create(world.new_sandbox(1), NO_LIMITS).await;

    assert!(matches!(answer, Err(CreateError::Exists { id: SandboxId(1) })));
    assert_eq!(world.sandbox(1).await, before);
}

pub async fn the_same_key_gives_the_same_sandbox(subject: &dyn Subject) {
    let world = World::over(subject);
    let full = AdmissionLimits { sandboxes: Some(1), ..NO_LIMITS };
    world.store.create(world.with_key(1, "key", "request", 1_000), full).await.unwrap();

    let again = world.store.create(world.with_key(2, "key", "request", 1_000), full).await;

    assert_eq!(again.unwrap(), Created::Known(SandboxId(1)));
    assert!(world.store.load(SandboxId(2)).await.unwrap().is_none());
    assert_eq!(world.store.totals().await.unwrap().created, 1);
}

pub async fn a_key_for_another_request_is_refused(subject: &dyn Subject) {
    let world = World::over(subject);
    world.store.create(world.with_key(1, "key", "request", 1_000), NO_LIMITS).await.unwrap();

    let answer = world.store.create(world.with_key(2, "key", "another", 1_000), NO_LIMITS).await;

    assert!(matches!(answer, Err(CreateError::KeyReused { key }) if key == "key"));
    assert!(world.store.load(SandboxId(2)).await.unwrap().is_none());
}

pub async fn a_key_that_has_expired_is_as_good_as_new(subject: &dyn Subject) {
    let mut world = World::over(subject);
    world.store.create(world.with_key(1, "key", "request", 1_000), NO_LIMITS).await.unwrap();
    world.later(1_000);

    let again = world.store.create(world.with_key(2, "key", "another", 1_000), NO_LIMITS).await;
    let known = world.store.create(world.with_key(3, "key", "another", 1_000), NO_LIMITS).await;

    assert!(matches!(again, Ok(Created::New(_))));
    assert_eq!(known.unwrap(), Created::Known(SandboxId(2)));
}

pub async fn a_burst_of_creates_does_not_get_past_the_limit(subject: &dyn Subject) {
    let world = World::over(subject);
    world.create(1).await;
    let limits = AdmissionLimits { sandboxes: Some(6), ..NO_LIMITS };
    let mut tasks = Vec::new();
    for id in 100..164 {
        let (store, new) = (world.store.clone(), world.new_sandbox(id));
        tasks.push(tokio::spawn(async move { store.create(new, limits).await }));
    }

    let (mut created, mut refused) = (0, 0);
    for task in tasks {
        match task.await.unwrap() {
            Ok(_) => created += 1,
            Err(CreateError::Scarce(Scarcity::Sandboxes { present: 6, limit: 6 })) => refused += 1,
            Err(other) => panic!("{other:?}"),
        }
    }

    assert_eq!((created, refused), (5, 59));
    assert_eq!(world.store.list(Filter::Present, None, 100).await.unwrap().len(), 6);
    assert_eq!(world.store.totals().await.unwrap().present(), 6);
}

pub async fn every_kind_of_limit_holds(subject: &dyn Subject) {
    let world = World::over(subject);
    world.create(1).await;
    let demand = spec(1).demand();
    let (memory, disk, processes) = (demand.memory_mb, demand.disk_mb, demand.processes);
    let limits = [
        (Some(2 * memory - 1), None, None),
        (None, Some(2 * disk - 1), None),
        (None, None, Some(2 * processes - 1)),
    ];

    for (memory_mb, disk_mb, processes) in limits {
        let limits = AdmissionLimits { sandboxes: None, memory_mb, disk_mb, processes };
        let answer = world.store.create(world.new_sandbox(2), limits).await;

        assert!(matches!(answer, Err(CreateError::Scarce(_))), "{answer:?}");
        assert!(world.store.load(SandboxId(2)).await.unwrap().is_none());
        assert_eq!(world.store.history(Some(SandboxId(2)), Seq(0), 9).await.unwrap(), []);
    }
}

pub async fn an_execution_that_comes_with_its_sandbox_is_written_with_it(subject: &dyn Subject) {
    let world = World::over(subject);
    let new = world.new_sandbox(1);
    let change = world.execution(&new.transition.sandbox, 7, Version(0));
    let transition = new.transition.clone().then(change.transition);

    let new = NewSandbox { transition: transition.clone(), commands: change.commands, ..new };
    world.store.create(new, NO_LIMITS).await.unwrap();

    assert_eq!(world.sandbox(1).await, transition.sandbox);
    let stored = world.store.execution(ExecutionId(7)).await.unwrap().unwrap();
    assert_eq!(stored.execution, transition.sandbox.executions[0]);
    assert_eq!(*stored.command, command(7));
}

pub async fn an_orphan_is_never_refused(subject: &dyn Subject) {
    let world = World::over(subject);
    world.create(1).await;
    let orphan = NewSandbox {
        transition: lease_orphan(SandboxId(2), Generation(4), world.ctx()),
        ..world.new_sandbox(2)
    };

    let created = world.store.create(orphan, AdmissionLimits::default()).await;

    assert!(matches!(created, Ok(Created::New(_))));
    assert_eq!(world.sandbox(2).await.generation(), Generation(4));
    assert_eq!(world.store.totals().await.unwrap().present(), 2);
}

pub async fn a_sandbox_that_is_proven_gone_makes_room(subject: &dyn Subject) {
    let world = World::over(subject);
    let limits = AdmissionLimits { memory_mb: Some(MEMORY_MB), ..NO_LIMITS };
    world.store.create(world.new_sandbox(1), limits).await.unwrap();
    let early = world.store.create(world.new_sandbox(2), limits).await;
    world.end(1).await;

    let late = world.store.create(world.new_sandbox(2), limits).await;

    assert!(matches!(early, Err(CreateError::Scarce(Scarcity::Memory { .. }))));
    assert!(late.is_ok());
}
