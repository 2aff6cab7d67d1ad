//! The warm pool: its size and each claim are decided in one transaction, and its instances are counted and listed apart
//! from sandboxes.

use std::sync::Arc;

use pinfold_lifecycle::{
    AdmissionLimits, AdmissionRefusal, Cause, Event, Policy, ProbeResult, Request, SandboxId, Spec, Totals,
    create_pooled, request,
};

use super::TestedStore;
use super::fixture::{MEMORY_MB, OTHER_NODE, StoreFixture, change, spec};
use crate::{
    AdmissionTerms, ClaimError, Created, FillError, IdempotencyKey, NewSandbox, PoolClaim, Row,
    SandboxFilter, StoredSandbox,
};

const NO_LIMITS: AdmissionLimits =
    AdmissionLimits { sandboxes: None, memory_mb: None, disk_mb: None, processes: None };

impl StoreFixture {
    pub(super) fn pooled(&self, id: u128) -> NewSandbox {
        let shape = spec(id).shape();
        NewSandbox {
            transition: create_pooled(SandboxId(id), shape.clone(), self.ctx()),
            spec: Arc::new(shape.spec()),
            policy: Arc::new(self.policy.clone()),
            key: None,
            commands: Vec::new(),
            admission: AdmissionTerms::default(),
        }
    }

    /// Puts an instance into the pool and makes it ready.
    pub(super) async fn waits(&self, id: u128) {
        self.store.fill_pool(self.pooled(id), u64::MAX, NO_LIMITS).await.unwrap();
        let fence = self.last_fence(id).await;
        self.step(id, Event::Launched { fence }).await;
        let (fence, probed) = (self.last_fence(id).await, ProbeResult::Passed);
        self.step(id, Event::Probed { fence, result: probed }).await;
    }

    /// The claim of a user for this instance, with a sandbox called `name`.
    pub(super) async fn claim_of(&self, id: u128, name: &str, key: Option<&str>) -> PoolClaim {
        let StoredSandbox { sandbox, version, .. } = self.load(id).await;
        let wanted = Spec { name: Some(name.into()), ..spec(id) };
        let policy = Policy { max_life_ms: 7_000_000, ..self.policy.clone() };
        let ctx = pinfold_lifecycle::Context { policy: &policy, ..self.ctx() };
        let claim = request(&sandbox, Request::Claim { shape: Box::new(wanted.shape()) }, ctx).unwrap();
        let key = key.map(|key| IdempotencyKey {
            key: key.into(),
            request: name.into(),
            expires_at: self.now.after_ms(1_000),
        });
        PoolClaim {
            change: change(claim, version),
            spec: Arc::new(wanted),
            policy: Arc::new(policy),
            key,
            admission: AdmissionTerms::default(),
            limits: AdmissionLimits::default(),
        }
    }

    async fn ids(&self, filter: SandboxFilter) -> Vec<u128> {
        let rows = self.store.list(filter, None, 100).await.unwrap();
        rows.iter().map(|row| row.id().0).collect()
    }

    async fn totals(&self) -> Totals {
        self.store.totals().await.unwrap()
    }
}

fn sums(totals: &Totals) -> (u64, u64, u64) {
    (totals.created, totals.destroyed, totals.pooled)
}

pub async fn an_instance_of_the_pool_is_no_sandbox_but_takes_room(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.create_ready(1).await;

    fixture.waits(2).await;

    let totals = fixture.totals().await;
    assert_eq!(sums(&totals), (1, 0, 1));
    assert_eq!((totals.present(), totals.leased(), totals.taken.memory_mb), (1, 2, 2 * MEMORY_MB));
    assert_eq!(
        (fixture.ids(SandboxFilter::Present).await, fixture.ids(SandboxFilter::All).await),
        (vec![1], vec![1])
    );
    assert_eq!(
        (fixture.ids(SandboxFilter::Pooled).await, fixture.ids(SandboxFilter::Leased).await),
        (vec![2], vec![1, 2])
    );
    let full = AdmissionLimits { sandboxes: Some(2), ..NO_LIMITS };
    let refused = fixture.store.create(fixture.new_sandbox(3), full).await;
    assert!(matches!(
        refused,
        Err(crate::CreateError::AdmissionRefused(AdmissionRefusal::Sandboxes { present: 2, limit: 2 }))
    ));
}

pub async fn a_claim_makes_an_instance_a_sandbox_in_one_transaction(tested: &dyn TestedStore) {
    let mut fixture = StoreFixture::new(tested);
    fixture.waits(1).await;
    fixture.advance_ms(5_000);
    let claim = fixture.claim_of(1, "mine", None).await;

    let created = fixture.store.claim(claim.clone()).await.unwrap();

    let stored = fixture.load(1).await;
    assert_eq!(created, Created::New(stored.version));
    assert_eq!(stored.sandbox, claim.change.transition.sandbox);
    assert_eq!((stored.spec, stored.policy), (claim.spec, claim.policy));
    assert_eq!(sums(&fixture.totals().await), (1, 0, 0));
    assert_eq!(
        (fixture.ids(SandboxFilter::Present).await, fixture.ids(SandboxFilter::Pooled).await),
        (vec![1], vec![])
    );
    assert!(fixture.store.pool_members(&spec(1).shape(), None, 9).await.unwrap().is_empty());
    let work = fixture.store.effects_of_node(fixture.node).await.unwrap();
    assert_eq!(work, claim.change.transition.effects);
    fixture.end(1).await;
    assert_eq!(sums(&fixture.totals().await), (1, 1, 0));
}

pub async fn of_many_claims_on_one_instance_one_succeeds(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.waits(1).await;
    let mut claims = Vec::new();
    for user in 0..16 {
        let node = if user % 2 == 0 { fixture.node } else { OTHER_NODE };
        let here = StoreFixture::new(tested).at(node, fixture.now);
        claims.push((user, here.claim_of(1, &format!("user {user}"), None).await));
    }

    let claiming = claims.into_iter().map(|(user, claim)| {
        let store = fixture.store.clone();
        tokio::spawn(async move { (user, store.claim(claim).await) })
    });
    let mut winners = Vec::new();
    for task in claiming.collect::<Vec<_>>() {
        match task.await.unwrap() {
            (user, Ok(Created::New(_))) => winners.push(format!("user {user}")),
            (_, Err(ClaimError::Taken)) => {}
            other => panic!("{other:?}"),
        }
    }

    assert_eq!(winners.len(), 1);
    assert_eq!(fixture.load(1).await.spec.name.as_ref(), winners.first());
    assert_eq!(sums(&fixture.totals().await), (1, 0, 0));
}

pub async fn a_claimed_instance_is_not_claimed_again(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.waits(1).await;
    let late = fixture.claim_of(1, "late", None).await;
    fixture.store.claim(fixture.claim_of(1, "first", None).await).await.unwrap();
    // Even a claim that was decided on the newest row: the instance is not in the pool.
    let forged = PoolClaim {
        change: change(late.change.transition.clone(), fixture.load(1).await.version),
        ..late.clone()
    };

    for claim in [late, forged] {
        assert!(matches!(fixture.store.claim(claim).await, Err(ClaimError::Taken)));
    }
    assert_eq!(fixture.load(1).await.spec.name.as_deref(), Some("first"));
}

pub async fn a_claim_for_another_shape_is_refused(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.waits(1).await;
    let claim = fixture.claim_of(1, "mine", None).await;
    let more = Spec { image: Some("larger".into()), ..claim.spec.as_ref().clone() };

    let refused = fixture.store.claim(PoolClaim { spec: Arc::new(more), ..claim }).await;

    assert!(matches!(refused, Err(ClaimError::Taken)));
    assert_eq!(sums(&fixture.totals().await), (0, 0, 1));
}

pub async fn the_same_key_claims_once(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.waits(1).await;
    fixture.waits(2).await;
    fixture.store.claim(fixture.claim_of(1, "mine", Some("key")).await).await.unwrap();

    let again = fixture.store.claim(fixture.claim_of(2, "mine", Some("key")).await).await;
    let other = fixture.store.claim(fixture.claim_of(2, "another", Some("key")).await).await;
    let created = fixture.store.create(fixture.with_key(3, "key", "mine", 1_000), NO_LIMITS).await;

    assert_eq!(again.unwrap(), Created::Existing(SandboxId(1)));
    assert!(matches!(other, Err(ClaimError::KeyReused { key }) if key == "key"));
    assert_eq!(created.unwrap(), Created::Existing(SandboxId(1)));
    assert_eq!(sums(&fixture.totals().await), (1, 0, 1));
}

pub async fn a_pool_is_filled_to_its_size_by_any_number_of_nodes(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    let mut tasks = Vec::new();
    for id in 100..132 {
        let (store, new) = (fixture.store.clone(), fixture.pooled(id));
        tasks.push(tokio::spawn(async move { store.fill_pool(new, 3, NO_LIMITS).await }));
    }

    let mut filled = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(_) => filled += 1,
            Err(FillError::Full) => {}
            Err(other) => panic!("{other:?}"),
        }
    }

    assert_eq!(filled, 3);
    let waiting = fixture.store.pool_members(&spec(1).shape(), None, 9).await.unwrap();
    assert_eq!(waiting.iter().map(Row::id).collect::<Vec<_>>().len(), 3);
    fixture.request(waiting[0].id().0, Request::DiscardPooled { cause: Cause::Cancelled }).await;
    assert!(fixture.store.fill_pool(fixture.pooled(200), 3, NO_LIMITS).await.is_ok());
}

pub async fn the_pool_does_not_take_the_last_room(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    let two = AdmissionLimits { sandboxes: Some(2), ..NO_LIMITS };
    fixture.store.fill_pool(fixture.pooled(1), 9, two).await.unwrap();

    let second = fixture.store.fill_pool(fixture.pooled(2), 9, two).await;
    let asked = fixture.store.create(fixture.new_sandbox(3), two).await;

    assert!(matches!(
        second,
        Err(FillError::AdmissionRefused(AdmissionRefusal::Sandboxes { present: 2, limit: 2 }))
    ));
    assert!(fixture.store.load(SandboxId(2)).await.unwrap().is_none());
    assert!(asked.is_ok());
}

pub async fn an_unclaimed_instance_never_counts_as_a_sandbox(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.waits(1).await;
    fixture.waits(2).await;

    fixture.end(1).await;
    fixture.request(2, Request::Forget).await;
    fixture.stop_succeeds(2).await;

    assert_eq!(sums(&fixture.totals().await), (0, 0, 0));
    assert_eq!(fixture.totals().await.taken.memory_mb, 0);
    assert_eq!(
        (fixture.ids(SandboxFilter::Settled).await, fixture.ids(SandboxFilter::Pooled).await),
        (vec![], vec![])
    );
}

pub async fn pool_members_are_listed_by_shape_oldest_first(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    for id in [3, 1, 2] {
        fixture.waits(id).await;
    }
    let shape = spec(1).shape();
    let ids = async |after: Option<u128>, limit| {
        let rows = fixture.store.pool_members(&shape, after.map(SandboxId), limit).await.unwrap();
        rows.iter().map(|row| row.id().0).collect::<Vec<_>>()
    };

    assert_eq!(
        (ids(None, 9).await, ids(None, 2).await, ids(Some(1), 9).await),
        (vec![1, 2, 3], vec![1, 2], vec![2, 3])
    );
    assert!(fixture.store.pool_members(&Spec::default().shape(), None, 9).await.unwrap().is_empty());
    fixture.request(1, Request::DiscardPooled { cause: Cause::Cancelled }).await;
    assert_eq!(ids(None, 9).await, [2, 3]);
}
