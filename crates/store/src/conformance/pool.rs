//! Promises about the warm pool: how many wait and who is given one are decided in one transaction each, and what
//! waits is summed and listed apart from sandboxes.

use std::sync::Arc;

use pinfold_lifecycle::{
    AdmissionLimits, Cause, Event, Policy, Probed, Request, SandboxId, Scarcity, Spec, Totals, create_pooled,
    request,
};

use super::Subject;
use super::world::{MEMORY_MB, OTHER_NODE, World, change, spec};
use crate::{Bid, Claim, ClaimError, Created, FillError, Filter, IdempotencyKey, NewSandbox, Row, Stored};

const NO_LIMITS: AdmissionLimits =
    AdmissionLimits { sandboxes: None, memory_mb: None, disk_mb: None, processes: None };

impl World {
    pub(super) fn pooled(&self, id: u128) -> NewSandbox {
        let shape = spec(id).shape();
        NewSandbox {
            transition: create_pooled(SandboxId(id), shape.clone(), self.ctx()),
            spec: Arc::new(shape.spec()),
            policy: Arc::new(self.policy.clone()),
            key: None,
            commands: Vec::new(),
            bid: Bid::default(),
        }
    }

    /// A body that waits in the pool and is proven.
    pub(super) async fn waits(&self, id: u128) {
        self.store.fill(self.pooled(id), u64::MAX, NO_LIMITS).await.unwrap();
        let ticket = self.ticket(id).await;
        self.step(id, Event::Launched { ticket }).await;
        let (ticket, probed) = (self.ticket(id).await, Probed::Passed);
        self.step(id, Event::Probed { ticket, probed }).await;
    }

    /// What whoever calls himself `name` hands over to be given this body.
    pub(super) async fn claim_of(&self, id: u128, name: &str, key: Option<&str>) -> Claim {
        let Stored { sandbox, version, .. } = self.load(id).await;
        let wanted = Spec { name: Some(name.into()), ..spec(id) };
        let policy = Policy { max_life_ms: 7_000_000, ..self.policy.clone() };
        let ctx = pinfold_lifecycle::Context { policy: &policy, ..self.ctx() };
        let turn = request(&sandbox, Request::Claim { shape: Box::new(wanted.shape()) }, ctx).unwrap();
        let key = key.map(|key| IdempotencyKey {
            key: key.into(),
            request: name.into(),
            expires_at: self.now.after_ms(1_000),
        });
        Claim {
            change: change(turn, version),
            spec: Arc::new(wanted),
            policy: Arc::new(policy),
            key,
            bid: Bid::default(),
            limits: AdmissionLimits::default(),
        }
    }

    async fn ids(&self, filter: Filter) -> Vec<u128> {
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

pub async fn what_waits_in_the_pool_is_no_sandbox_and_takes_its_place(subject: &dyn Subject) {
    let world = World::over(subject);
    world.live(1).await;

    world.waits(2).await;

    let totals = world.totals().await;
    assert_eq!(sums(&totals), (1, 0, 1));
    assert_eq!((totals.present(), totals.leased(), totals.taken.memory_mb), (1, 2, 2 * MEMORY_MB));
    assert_eq!((world.ids(Filter::Present).await, world.ids(Filter::All).await), (vec![1], vec![1]));
    assert_eq!((world.ids(Filter::Pooled).await, world.ids(Filter::Leased).await), (vec![2], vec![1, 2]));
    let full = AdmissionLimits { sandboxes: Some(2), ..NO_LIMITS };
    let refused = world.store.create(world.new_sandbox(3), full).await;
    assert!(matches!(refused, Err(crate::CreateError::Scarce(Scarcity::Sandboxes { present: 2, limit: 2 }))));
}

pub async fn a_claim_makes_it_a_sandbox_in_one_transaction(subject: &dyn Subject) {
    let mut world = World::over(subject);
    world.waits(1).await;
    world.later(5_000);
    let claim = world.claim_of(1, "mine", None).await;

    let created = world.store.claim(claim.clone()).await.unwrap();

    let stored = world.load(1).await;
    assert_eq!(created, Created::New(stored.version));
    assert_eq!(stored.sandbox, claim.change.transition.sandbox);
    assert_eq!((stored.spec, stored.policy), (claim.spec, claim.policy));
    assert_eq!(sums(&world.totals().await), (1, 0, 0));
    assert_eq!((world.ids(Filter::Present).await, world.ids(Filter::Pooled).await), (vec![1], vec![]));
    assert!(world.store.waiting(&spec(1).shape(), None, 9).await.unwrap().is_empty());
    let work = world.store.effects_of(world.node).await.unwrap();
    assert_eq!(work, claim.change.transition.effects);
    world.end(1).await;
    assert_eq!(sums(&world.totals().await), (1, 1, 0));
}

pub async fn of_many_claims_on_one_body_one_lands(subject: &dyn Subject) {
    let world = World::over(subject);
    world.waits(1).await;
    let mut claims = Vec::new();
    for user in 0..16 {
        let node = if user % 2 == 0 { world.node } else { OTHER_NODE };
        let here = World::over(subject).at(node, world.now);
        claims.push((user, here.claim_of(1, &format!("user {user}"), None).await));
    }

    let claiming = claims.into_iter().map(|(user, claim)| {
        let store = world.store.clone();
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
    assert_eq!(world.load(1).await.spec.name.as_ref(), winners.first());
    assert_eq!(sums(&world.totals().await), (1, 0, 0));
}

pub async fn what_was_given_out_is_not_claimed_again(subject: &dyn Subject) {
    let world = World::over(subject);
    world.waits(1).await;
    let late = world.claim_of(1, "late", None).await;
    world.store.claim(world.claim_of(1, "first", None).await).await.unwrap();
    // Even one that was decided on the newest row: it does not wait in the pool.
    let forged =
        Claim { change: change(late.change.transition.clone(), world.load(1).await.version), ..late.clone() };

    for claim in [late, forged] {
        assert!(matches!(world.store.claim(claim).await, Err(ClaimError::Taken)));
    }
    assert_eq!(world.load(1).await.spec.name.as_deref(), Some("first"));
}

pub async fn a_claim_for_another_shape_is_refused(subject: &dyn Subject) {
    let world = World::over(subject);
    world.waits(1).await;
    let claim = world.claim_of(1, "mine", None).await;
    let more = Spec { image: Some("larger".into()), ..claim.spec.as_ref().clone() };

    let refused = world.store.claim(Claim { spec: Arc::new(more), ..claim }).await;

    assert!(matches!(refused, Err(ClaimError::Taken)));
    assert_eq!(sums(&world.totals().await), (0, 0, 1));
}

pub async fn the_same_key_claims_once(subject: &dyn Subject) {
    let world = World::over(subject);
    world.waits(1).await;
    world.waits(2).await;
    world.store.claim(world.claim_of(1, "mine", Some("key")).await).await.unwrap();

    let again = world.store.claim(world.claim_of(2, "mine", Some("key")).await).await;
    let other = world.store.claim(world.claim_of(2, "another", Some("key")).await).await;
    let created = world.store.create(world.with_key(3, "key", "mine", 1_000), NO_LIMITS).await;

    assert_eq!(again.unwrap(), Created::Known(SandboxId(1)));
    assert!(matches!(other, Err(ClaimError::KeyReused { key }) if key == "key"));
    assert_eq!(created.unwrap(), Created::Known(SandboxId(1)));
    assert_eq!(sums(&world.totals().await), (1, 0, 1));
}

pub async fn a_pool_is_filled_to_its_size_by_any_number_of_nodes(subject: &dyn Subject) {
    let world = World::over(subject);
    let mut tasks = Vec::new();
    for id in 100..132 {
        let (store, new) = (world.store.clone(), world.pooled(id));
        tasks.push(tokio::spawn(async move { store.fill(new, 3, NO_LIMITS).await }));
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
    let waiting = world.store.waiting(&spec(1).shape(), None, 9).await.unwrap();
    assert_eq!(waiting.iter().map(Row::id).collect::<Vec<_>>().len(), 3);
    world.ask(waiting[0].id().0, Request::GiveUp { cause: Cause::Cancelled }).await;
    assert!(world.store.fill(world.pooled(200), 3, NO_LIMITS).await.is_ok());
}

pub async fn the_pool_leaves_the_last_place_to_whoever_asks(subject: &dyn Subject) {
    let world = World::over(subject);
    let two = AdmissionLimits { sandboxes: Some(2), ..NO_LIMITS };
    world.store.fill(world.pooled(1), 9, two).await.unwrap();

    let second = world.store.fill(world.pooled(2), 9, two).await;
    let asked = world.store.create(world.new_sandbox(3), two).await;

    assert!(matches!(second, Err(FillError::Scarce(Scarcity::Sandboxes { present: 2, limit: 2 }))));
    assert!(world.store.load(SandboxId(2)).await.unwrap().is_none());
    assert!(asked.is_ok());
}

pub async fn what_ends_unclaimed_was_never_a_sandbox(subject: &dyn Subject) {
    let world = World::over(subject);
    world.waits(1).await;
    world.waits(2).await;

    world.end(1).await;
    world.ask(2, Request::Forget).await;
    world.gone(2).await;

    assert_eq!(sums(&world.totals().await), (0, 0, 0));
    assert_eq!(world.totals().await.taken.memory_mb, 0);
    assert_eq!((world.ids(Filter::Settled).await, world.ids(Filter::Pooled).await), (vec![], vec![]));
}

pub async fn what_waits_is_found_by_its_shape_the_oldest_first(subject: &dyn Subject) {
    let world = World::over(subject);
    for id in [3, 1, 2] {
        world.waits(id).await;
    }
    let shape = spec(1).shape();
    let ids = async |after: Option<u128>, limit| {
        let rows = world.store.waiting(&shape, after.map(SandboxId), limit).await.unwrap();
        rows.iter().map(|row| row.id().0).collect::<Vec<_>>()
    };

    assert_eq!(
        (ids(None, 9).await, ids(None, 2).await, ids(Some(1), 9).await),
        (vec![1, 2, 3], vec![1, 2], vec![2, 3])
    );
    assert!(world.store.waiting(&Spec::default().shape(), None, 9).await.unwrap().is_empty());
    world.ask(1, Request::GiveUp { cause: Cause::Cancelled }).await;
    assert_eq!(ids(None, 9).await, [2, 3]);
}
