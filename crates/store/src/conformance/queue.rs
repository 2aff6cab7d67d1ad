//! Promises about those who wait for room: first come, first served among those that fit, and none for ever.

use std::sync::Arc;

use pinfold_lifecycle::{
    AdmissionLimits, Demand, Generation, Held, Limits, MOST_OVERTAKINGS, PlaceId, Quota, QuotaKey, SandboxId,
    Scarcity, Spec, Timestamp, TokenId, lease_orphan,
};

use super::Subject;
use super::world::{MEMORY_MB, NODE, OTHER_NODE, World, spec};
use crate::{
    Bid, Claim, ClaimError, CreateError, Created, JoinError, NewPlace, NewSandbox, Node, PlaceEnd, Retention,
};

/// Room for two of this world.
const TWO: AdmissionLimits =
    AdmissionLimits { sandboxes: None, memory_mb: Some(2 * MEMORY_MB), disk_mb: None, processes: None };
const FOR_MS: u64 = 10_000;

impl World {
    fn place(&self, id: u128) -> NewPlace {
        NewPlace {
            id: PlaceId(id),
            node: self.node,
            asked_at: self.now,
            until: self.now.after_ms(FOR_MS),
            demand: spec(id).demand(),
            quotas: Vec::new(),
            asked_by: Some(TokenId(3)),
            name: Some(format!("place {id}")),
        }
    }

    async fn join(&self, id: u128) {
        self.store.join(self.place(id), TWO).await.unwrap();
    }

    async fn join_with(&self, id: u128, memory_mb: u64) {
        let demand = Demand { memory_mb, ..Demand::default() };
        self.store.join(NewPlace { demand, ..self.place(id) }, TWO).await.unwrap();
    }

    /// With a place in the queue of the same number, or none.
    fn bids(&self, id: u128, memory_mb: u64, place: Option<u128>) -> NewSandbox {
        let limits = Limits { memory_mb: Some(memory_mb), ..Limits::default() };
        let bid = Bid { quotas: Vec::new(), place: place.map(PlaceId) };
        NewSandbox { spec: Arc::new(Spec { limits, ..Spec::default() }), bid, ..self.new_sandbox(id) }
    }

    async fn asks(&self, id: u128, memory_mb: u64, place: Option<u128>) -> Result<Created, CreateError> {
        self.store.create(self.bids(id, memory_mb, place), TWO).await
    }

    async fn line(&self) -> Vec<(u128, u64, bool)> {
        let line = self.store.line(TWO, self.now).await.unwrap();
        line.iter().map(|one| (one.place.new.id.0, one.position, one.held.is_none())).collect()
    }

    async fn end_of(&self, place: u128) -> Option<PlaceEnd> {
        self.store.place(PlaceId(place)).await.unwrap().unwrap().end.map(|(_, end)| end)
    }

    async fn beat(&self) {
        let node = Node { id: self.node, host: "h".into(), boot_id: "b".into(), pid: 1, started: 1 };
        self.store.beat(node, self.now).await.unwrap();
    }
}

pub async fn those_who_wait_are_read_back_in_the_order_of_arrival(subject: &dyn Subject) {
    let world = World::over(subject);
    for id in [5, 3, 4] {
        world.join(id).await;
    }

    assert_eq!(world.line().await, [(5, 1, true), (3, 2, true), (4, 3, false)]);
    let found = world.store.place(PlaceId(3)).await.unwrap().unwrap();
    assert_eq!((found.new, found.passed, found.end), (world.place(3), 0, None));
    assert_eq!(world.store.place(PlaceId(9)).await.unwrap(), None);
    assert!(matches!(world.store.join(world.place(5), TWO).await, Err(JoinError::Exists { .. })));
}

pub async fn what_would_never_fit_is_not_put_into_the_queue(subject: &dyn Subject) {
    let world = World::over(subject);
    let demand = Demand { memory_mb: 2 * MEMORY_MB + 1, ..Demand::default() };

    let refused = world.store.join(NewPlace { demand, ..world.place(1) }, TWO).await;

    assert!(matches!(refused, Err(JoinError::NeverFits(Scarcity::Memory { .. }))));
    assert_eq!(world.line().await, []);
}

pub async fn who_does_not_wait_does_not_overtake_who_does_and_fits(subject: &dyn Subject) {
    let world = World::over(subject);
    world.join(1).await;
    world.join(2).await;

    let refused = world.asks(10, MEMORY_MB, None).await;

    assert!(matches!(refused, Err(CreateError::Scarce(Scarcity::Queue { ahead: 2 }))), "{refused:?}");
    world.asks(1, MEMORY_MB, Some(1)).await.unwrap();
    world.asks(2, MEMORY_MB, Some(2)).await.unwrap();
    world.end(1).await;
    assert!(world.asks(10, MEMORY_MB, None).await.is_ok());
}

pub async fn who_waits_longer_is_let_in_first(subject: &dyn Subject) {
    let world = World::over(subject);
    world.asks(9, MEMORY_MB, None).await.unwrap();
    world.join(1).await;
    world.join(2).await;

    let second = world.asks(2, MEMORY_MB, Some(2)).await;
    let first = world.asks(1, MEMORY_MB, Some(1)).await;

    assert!(matches!(second, Err(CreateError::Scarce(Scarcity::Queue { ahead: 1 }))), "{second:?}");
    assert!(first.is_ok());
    assert_eq!(world.line().await, [(2, 1, false)]);
}

pub async fn whoever_is_let_in_leaves_the_queue_in_the_same_transaction(subject: &dyn Subject) {
    let world = World::over(subject);
    world.join(1).await;

    world.asks(7, MEMORY_MB, Some(1)).await.unwrap();

    assert_eq!(world.line().await, []);
    assert_eq!(world.end_of(1).await, Some(PlaceEnd::Admitted(SandboxId(7))));
    let again = world.asks(8, MEMORY_MB, Some(1)).await;
    assert!(matches!(again, Err(CreateError::NotWaiting { place: PlaceId(1) })));
    assert_eq!(world.store.totals().await.unwrap().present(), 1);
}

pub async fn a_place_that_has_ended_lets_nobody_in(subject: &dyn Subject) {
    let world = World::over(subject);
    world.join(1).await;

    let ended = world.store.end_place(PlaceId(1), PlaceEnd::Cancelled, world.now).await.unwrap();
    let again = world.store.end_place(PlaceId(1), PlaceEnd::Expired, world.now).await.unwrap();

    assert_eq!((ended, again), (true, false));
    assert_eq!(world.end_of(1).await, Some(PlaceEnd::Cancelled));
    let refused = world.asks(1, MEMORY_MB, Some(1)).await;
    assert!(matches!(refused, Err(CreateError::NotWaiting { .. })));
}

pub async fn no_place_outlives_its_deadline(subject: &dyn Subject) {
    let mut world = World::over(subject);
    world.beat().await;
    world.join(1).await;
    world.later(FOR_MS - 1);
    let overdue = world.store.end_overdue(world.now).await.unwrap();
    assert_eq!((world.line().await.len(), overdue), (1, 0));

    world.later(1);

    // Also before anybody has written that down.
    assert_eq!(world.line().await, []);
    assert!(matches!(world.asks(1, 1, Some(1)).await, Err(CreateError::NotWaiting { .. })));
    assert!(world.asks(2, 2 * MEMORY_MB, None).await.is_ok());
    assert_eq!(world.store.end_overdue(world.now).await.unwrap(), 1);
    assert_eq!(world.end_of(1).await, Some(PlaceEnd::Expired));
}

pub async fn a_place_is_gone_with_its_node(subject: &dyn Subject) {
    let (mut world, mut other) = (World::over(subject), World::over(subject));
    (world.node, other.node) = (NODE, OTHER_NODE);
    world.beat().await;
    other.beat().await;
    world.join(1).await;
    other.join(2).await;
    assert_eq!(world.store.end_overdue(world.now).await.unwrap(), 0);

    assert!(other.store.leave(OTHER_NODE).await.unwrap());

    assert_eq!(world.store.end_overdue(world.now).await.unwrap(), 1);
    assert_eq!((world.end_of(1).await, world.end_of(2).await), (None, Some(PlaceEnd::Abandoned)));
}

pub async fn a_large_one_is_overtaken_only_so_often(subject: &dyn Subject) {
    let world = World::over(subject);
    world.asks(1, MEMORY_MB, None).await.unwrap();
    world.join_with(1, 2 * MEMORY_MB).await;
    let small = 100;

    for id in 0..u128::from(MOST_OVERTAKINGS) {
        world.join_with(small + id, 1).await;
        world.asks(small + id, 1, Some(small + id)).await.unwrap();
    }

    world.join_with(50, 1).await;
    let ninth = world.asks(50, 1, Some(50)).await;
    assert!(matches!(ninth, Err(CreateError::Scarce(Scarcity::Queue { .. }))), "{ninth:?}");
    let newcomer = world.asks(51, 1, None).await;
    assert!(matches!(newcomer, Err(CreateError::Scarce(Scarcity::Queue { .. }))), "{newcomer:?}");
    let line = world.store.line(TWO, world.now).await.unwrap();
    assert_eq!((line[0].place.passed, line[1].held.clone()), (MOST_OVERTAKINGS, Some(Held::KeptFor(0))));

    world.end(1).await;
    for id in 0..u128::from(MOST_OVERTAKINGS) {
        world.end(small + id).await;
    }

    world.asks(2, 2 * MEMORY_MB, Some(1)).await.unwrap();
    world.end(2).await;
    world.asks(50, 1, Some(50)).await.unwrap();
}

pub async fn who_waits_for_its_own_quota_holds_up_nobody_else(subject: &dyn Subject) {
    let world = World::over(subject);
    let quotas = vec![Quota { key: QuotaKey::Token(TokenId(3)), limit: 0 }];
    let one = vec![Quota { limit: 1, ..quotas[0].clone() }];
    world.store.join(NewPlace { quotas: one, ..world.place(1) }, TWO).await.unwrap();

    let refused = world.store.join(NewPlace { quotas, ..world.place(2) }, TWO).await;
    assert!(matches!(refused, Err(JoinError::NeverFits(Scarcity::Token { limit: 0, .. }))));

    let taken = NewSandbox { bid: Bid::default(), ..world.bids(5, 1, None) };
    let by_token = pinfold_lifecycle::Asker { token: TokenId(3), name: "ci".into() };
    let spec = Spec { asked_by: Some(by_token), ..Spec::default() };
    world.store.create(NewSandbox { spec: Arc::new(spec), ..taken }, TWO).await.unwrap();
    assert_eq!(world.line().await, [(1, 1, false)]);
    assert!(world.asks(6, 2 * MEMORY_MB, None).await.is_ok());
}

pub async fn what_waits_in_the_pool_gives_way_to_who_waits_in_the_queue(subject: &dyn Subject) {
    let world = World::over(subject);
    world.waits(1).await;
    world.asks(2, MEMORY_MB, None).await.unwrap();
    world.join(3).await;

    // It fits, once the pool has made room, and the pool takes none meanwhile.
    let filled = world.store.fill(world.pooled(7), u64::MAX, AdmissionLimits::default()).await;
    assert!(matches!(filled, Err(crate::FillError::Scarce(Scarcity::Queue { .. }))), "{filled:?}");
    assert_eq!(world.line().await, [(3, 1, true)]);
    assert!(matches!(
        world.asks(3, MEMORY_MB, Some(3)).await,
        Err(CreateError::Scarce(Scarcity::Memory { .. }))
    ));
    let claim = Claim { limits: TWO, ..world.claim_of(1, "mine", None).await };
    let newcomer = world.store.claim(claim.clone()).await;
    assert!(matches!(newcomer, Err(ClaimError::Scarce(Scarcity::Queue { ahead: 1 }))), "{newcomer:?}");

    let own = Bid { place: Some(PlaceId(3)), ..Bid::default() };
    let claimed = world.store.claim(Claim { bid: own, ..claim }).await;

    assert!(matches!(claimed, Ok(Created::New(_))));
    assert_eq!(world.end_of(3).await, Some(PlaceEnd::Admitted(SandboxId(1))));
}

pub async fn an_orphan_is_not_held_up_by_those_who_wait(subject: &dyn Subject) {
    let world = World::over(subject);
    world.asks(1, 2 * MEMORY_MB, None).await.unwrap();
    world.join(1).await;
    let transition = lease_orphan(SandboxId(2), Generation(4), world.ctx());

    let orphan = NewSandbox { transition, ..world.bids(2, 0, None) };

    assert!(world.store.create(orphan, AdmissionLimits::default()).await.is_ok());
}

pub async fn places_that_have_ended_are_pruned_as_records_are(subject: &dyn Subject) {
    let mut world = World::over(subject);
    world.join(1).await;
    world.join(2).await;
    world.store.end_place(PlaceId(1), PlaceEnd::Cancelled, world.now).await.unwrap();
    world.later(1_000);

    let before = |at: Timestamp| Retention { records_before: at, history_before: at, now: at };
    world.store.prune(before(world.now), 10).await.unwrap();

    assert_eq!(world.store.place(PlaceId(1)).await.unwrap(), None);
    assert_eq!(world.line().await.len(), 1);
}
