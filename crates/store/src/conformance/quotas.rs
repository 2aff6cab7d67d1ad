//! Promises about quotas: counted by their keys until the proof that a sandbox is gone, in the transaction that creates.

use std::collections::BTreeMap;
use std::sync::Arc;

use pinfold_lifecycle::{
    AdmissionLimits, Asker, Generation, Quota, QuotaKey, Request, Scarcity, Spec, TokenId,
};

use super::Subject;
use super::world::{World, spec};
use crate::{Bid, Claim, ClaimError, CreateError, Created, NewSandbox};

const NO_LIMITS: AdmissionLimits =
    AdmissionLimits { sandboxes: None, memory_mb: None, disk_mb: None, processes: None };
const TOKEN: TokenId = TokenId(7);

fn team() -> QuotaKey {
    QuotaKey::Label { name: "team".into(), value: "red".into() }
}

fn labelled(id: u128) -> Spec {
    Spec {
        labels: BTreeMap::from([("team".to_owned(), "red".to_owned())]),
        asked_by: Some(Asker { token: TOKEN, name: "ci".into() }),
        ..spec(id)
    }
}

impl World {
    fn with_quota(&self, id: u128, key: QuotaKey, limit: u64) -> NewSandbox {
        let bid = Bid { quotas: vec![Quota { key, limit }], place: None };
        NewSandbox { spec: Arc::new(labelled(id)), bid, ..self.new_sandbox(id) }
    }
}

pub async fn a_quota_is_kept_by_a_burst_of_creates(subject: &dyn Subject) {
    let world = World::over(subject);
    let mut tasks = Vec::new();
    for id in 1..=40 {
        let key = if id % 2 == 0 { team() } else { QuotaKey::Token(TOKEN) };
        let (store, new) = (world.store.clone(), world.with_quota(id, key, 6));
        tasks.push(tokio::spawn(async move { store.create(new, NO_LIMITS).await }));
    }

    let (mut created, mut refused) = (0, 0);
    for task in tasks {
        match task.await.unwrap() {
            Ok(_) => created += 1,
            Err(CreateError::Scarce(Scarcity::Token { taken: 6, limit: 6, token: TOKEN })) => refused += 1,
            Err(CreateError::Scarce(Scarcity::Label { taken: 6, limit: 6, label, value })) => {
                assert_eq!((label.as_str(), value.as_str()), ("team", "red"));
                refused += 1;
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    // Each is counted by both of its keys, whichever of them it has to keep.
    assert_eq!((created, refused), (6, 34));
    assert_eq!(world.store.totals().await.unwrap().present(), 6);
}

pub async fn a_quota_is_freed_by_proof_alone(subject: &dyn Subject) {
    let world = World::over(subject);
    world.store.create(world.with_quota(1, team(), 1), NO_LIMITS).await.unwrap();
    let (cause, forced) = (pinfold_lifecycle::Cause::StoppedByUser, false);
    world.ask(1, Request::Stop { cause, forced }).await;

    let early = world.store.create(world.with_quota(2, team(), 1), NO_LIMITS).await;
    world.gone(1).await;
    let late = world.store.create(world.with_quota(2, team(), 1), NO_LIMITS).await;

    assert!(matches!(early, Err(CreateError::Scarce(Scarcity::Label { .. }))));
    assert!(matches!(late, Ok(Created::New(_))));
}

pub async fn a_stray_takes_its_quota_again(subject: &dyn Subject) {
    let world = World::over(subject);
    world.store.create(world.with_quota(1, team(), 1), NO_LIMITS).await.unwrap();
    world.end(1).await;
    world.ask(1, Request::LeaseStray { generation: Generation(1) }).await;

    let refused = world.store.create(world.with_quota(2, team(), 1), NO_LIMITS).await;
    world.gone(1).await;
    let admitted = world.store.create(world.with_quota(2, team(), 1), NO_LIMITS).await;

    assert!(matches!(refused, Err(CreateError::Scarce(Scarcity::Label { .. }))));
    assert!(admitted.is_ok());
}

pub async fn what_is_forgotten_is_counted_no_more(subject: &dyn Subject) {
    let world = World::over(subject);
    world.store.create(world.with_quota(1, team(), 1), NO_LIMITS).await.unwrap();
    world.ask(1, Request::Forget).await;
    world.gone(1).await;

    assert!(world.store.create(world.with_quota(2, team(), 1), NO_LIMITS).await.is_ok());
}

pub async fn a_claim_from_the_pool_keeps_the_quota_too(subject: &dyn Subject) {
    let world = World::over(subject);
    world.store.create(world.with_quota(9, team(), 1), NO_LIMITS).await.unwrap();
    world.waits(1).await;
    let bid = |limit| Bid { quotas: vec![Quota { key: team(), limit }], place: None };
    let claim = world.claim_of(1, "mine", None).await;
    let claim = Claim { spec: Arc::new(labelled(1)), bid: bid(1), ..claim };

    let refused = world.store.claim(claim.clone()).await;
    let admitted = world.store.claim(Claim { bid: bid(2), ..claim }).await;
    let third = world.store.create(world.with_quota(2, team(), 2), NO_LIMITS).await;

    assert!(matches!(refused, Err(ClaimError::Scarce(Scarcity::Label { taken: 1, limit: 1, .. }))));
    assert!(matches!(admitted, Ok(Created::New(_))));
    assert!(matches!(third, Err(CreateError::Scarce(Scarcity::Label { taken: 2, limit: 2, .. }))));
}
