//! The queue: first come, first served among the requests that fit, and no entry waits for ever.

use std::sync::Arc;

use pinfold_lifecycle::{
    AdmissionLimits, AdmissionRefusal, Demand, Generation, Limits, MAX_OVERTAKES, QueueId, Quota, QuotaKey,
    SandboxId, Spec, Timestamp, TokenId, WaitReason, lease_orphan,
};

use super::TestedStore;
use super::fixture::{MEMORY_MB, NODE, OTHER_NODE, StoreFixture, spec};
use crate::{
    AdmissionTerms, ClaimError, CreateError, Created, EnqueueError, NewQueueEntry, NewSandbox, Node,
    PoolClaim, QueueOutcome, Retention,
};

/// Room for two sandboxes of the fixture.
const TWO: AdmissionLimits =
    AdmissionLimits { sandboxes: None, memory_mb: Some(2 * MEMORY_MB), disk_mb: None, processes: None };
const FOR_MS: u64 = 10_000;

impl StoreFixture {
    fn new_entry(&self, id: u128) -> NewQueueEntry {
        NewQueueEntry {
            id: QueueId(id),
            owner_node: self.node,
            requested_at: self.now,
            deadline: self.now.after_ms(FOR_MS),
            demand: spec(id).demand(),
            quotas: Vec::new(),
            requested_by: Some(TokenId(3)),
            name: Some(format!("entry {id}")),
        }
    }

    async fn enqueue(&self, id: u128) {
        self.store.enqueue(self.new_entry(id), TWO).await.unwrap();
    }

    async fn enqueue_with_memory(&self, id: u128, memory_mb: u64) {
        let demand = Demand { memory_mb, ..Demand::default() };
        self.store.enqueue(NewQueueEntry { demand, ..self.new_entry(id) }, TWO).await.unwrap();
    }

    /// A sandbox of this size, with a queue entry or without.
    fn new_with_memory(&self, id: u128, memory_mb: u64, place: Option<u128>) -> NewSandbox {
        let limits = Limits { memory_mb: Some(memory_mb), ..Limits::default() };
        let admission = AdmissionTerms { quotas: Vec::new(), queue_id: place.map(QueueId) };
        NewSandbox { spec: Arc::new(Spec { limits, ..Spec::default() }), admission, ..self.new_sandbox(id) }
    }

    async fn create_with_memory(
        &self,
        id: u128,
        memory_mb: u64,
        place: Option<u128>,
    ) -> Result<Created, CreateError> {
        self.store.create(self.new_with_memory(id, memory_mb, place), TWO).await
    }

    async fn positions(&self) -> Vec<(u128, u64, bool)> {
        let line = self.store.queue_positions(TWO, self.now).await.unwrap();
        line.iter().map(|one| (one.entry.new.id.0, one.position, one.wait_reason.is_none())).collect()
    }

    async fn outcome_of(&self, place: u128) -> Option<QueueOutcome> {
        self.store.queue_entry(QueueId(place)).await.unwrap().unwrap().outcome.map(|(_, end)| end)
    }

    async fn heartbeat(&self) {
        let node = Node { id: self.node, host: "h".into(), boot_id: "b".into(), pid: 1, start_ticks: 1 };
        self.store.heartbeat(node, self.now).await.unwrap();
    }
}

pub async fn queue_entries_are_listed_in_the_order_of_arrival(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    for id in [5, 3, 4] {
        fixture.enqueue(id).await;
    }

    assert_eq!(fixture.positions().await, [(5, 1, true), (3, 2, true), (4, 3, false)]);
    let found = fixture.store.queue_entry(QueueId(3)).await.unwrap().unwrap();
    assert_eq!((found.new, found.times_overtaken, found.outcome), (fixture.new_entry(3), 0, None));
    assert_eq!(fixture.store.queue_entry(QueueId(9)).await.unwrap(), None);
    assert!(matches!(
        fixture.store.enqueue(fixture.new_entry(5), TWO).await,
        Err(EnqueueError::Exists { .. })
    ));
}

pub async fn a_request_that_never_fits_is_not_queued(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    let demand = Demand { memory_mb: 2 * MEMORY_MB + 1, ..Demand::default() };

    let refused = fixture.store.enqueue(NewQueueEntry { demand, ..fixture.new_entry(1) }, TWO).await;

    assert!(matches!(refused, Err(EnqueueError::NeverFits(AdmissionRefusal::Memory { .. }))));
    assert_eq!(fixture.positions().await, []);
}

pub async fn a_new_request_does_not_overtake_a_queued_one_that_fits(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.enqueue(1).await;
    fixture.enqueue(2).await;

    let refused = fixture.create_with_memory(10, MEMORY_MB, None).await;

    assert!(
        matches!(refused, Err(CreateError::AdmissionRefused(AdmissionRefusal::Queue { ahead: 2 }))),
        "{refused:?}"
    );
    fixture.create_with_memory(1, MEMORY_MB, Some(1)).await.unwrap();
    fixture.create_with_memory(2, MEMORY_MB, Some(2)).await.unwrap();
    fixture.end(1).await;
    assert!(fixture.create_with_memory(10, MEMORY_MB, None).await.is_ok());
}

pub async fn the_longest_waiting_request_is_admitted_first(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.create_with_memory(9, MEMORY_MB, None).await.unwrap();
    fixture.enqueue(1).await;
    fixture.enqueue(2).await;

    let second = fixture.create_with_memory(2, MEMORY_MB, Some(2)).await;
    let first = fixture.create_with_memory(1, MEMORY_MB, Some(1)).await;

    assert!(
        matches!(second, Err(CreateError::AdmissionRefused(AdmissionRefusal::Queue { ahead: 1 }))),
        "{second:?}"
    );
    assert!(first.is_ok());
    assert_eq!(fixture.positions().await, [(2, 1, false)]);
}

pub async fn an_admitted_request_leaves_the_queue_in_the_same_transaction(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.enqueue(1).await;

    fixture.create_with_memory(7, MEMORY_MB, Some(1)).await.unwrap();

    assert_eq!(fixture.positions().await, []);
    assert_eq!(fixture.outcome_of(1).await, Some(QueueOutcome::Admitted(SandboxId(7))));
    let again = fixture.create_with_memory(8, MEMORY_MB, Some(1)).await;
    assert!(matches!(again, Err(CreateError::NotQueued { id: QueueId(1) })));
    assert_eq!(fixture.store.totals().await.unwrap().present(), 1);
}

pub async fn an_ended_queue_entry_admits_nothing(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.enqueue(1).await;

    let ended =
        fixture.store.end_queue_entry(QueueId(1), QueueOutcome::Cancelled, fixture.now).await.unwrap();
    let again = fixture.store.end_queue_entry(QueueId(1), QueueOutcome::Expired, fixture.now).await.unwrap();

    assert_eq!((ended, again), (true, false));
    assert_eq!(fixture.outcome_of(1).await, Some(QueueOutcome::Cancelled));
    let refused = fixture.create_with_memory(1, MEMORY_MB, Some(1)).await;
    assert!(matches!(refused, Err(CreateError::NotQueued { .. })));
}

pub async fn a_queue_entry_ends_at_its_deadline(tested: &dyn TestedStore) {
    let mut fixture = StoreFixture::new(tested);
    fixture.heartbeat().await;
    fixture.enqueue(1).await;
    fixture.advance_ms(FOR_MS - 1);
    let overdue = fixture.store.expire_queue_entries(fixture.now).await.unwrap();
    assert_eq!((fixture.positions().await.len(), overdue), (1, 0));

    fixture.advance_ms(1);

    // Also before the expiry is written.
    assert_eq!(fixture.positions().await, []);
    assert!(matches!(fixture.create_with_memory(1, 1, Some(1)).await, Err(CreateError::NotQueued { .. })));
    assert!(fixture.create_with_memory(2, 2 * MEMORY_MB, None).await.is_ok());
    assert_eq!(fixture.store.expire_queue_entries(fixture.now).await.unwrap(), 1);
    assert_eq!(fixture.outcome_of(1).await, Some(QueueOutcome::Expired));
}

pub async fn a_queue_entry_ends_with_its_node(tested: &dyn TestedStore) {
    let (mut fixture, mut other) = (StoreFixture::new(tested), StoreFixture::new(tested));
    (fixture.node, other.node) = (NODE, OTHER_NODE);
    fixture.heartbeat().await;
    other.heartbeat().await;
    fixture.enqueue(1).await;
    other.enqueue(2).await;
    assert_eq!(fixture.store.expire_queue_entries(fixture.now).await.unwrap(), 0);

    assert!(other.store.remove_node(OTHER_NODE).await.unwrap());

    assert_eq!(fixture.store.expire_queue_entries(fixture.now).await.unwrap(), 1);
    assert_eq!(
        (fixture.outcome_of(1).await, fixture.outcome_of(2).await),
        (None, Some(QueueOutcome::Abandoned))
    );
}

pub async fn a_large_request_is_overtaken_a_bounded_number_of_times(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.create_with_memory(1, MEMORY_MB, None).await.unwrap();
    fixture.enqueue_with_memory(1, 2 * MEMORY_MB).await;
    let small = 100;

    for id in 0..u128::from(MAX_OVERTAKES) {
        fixture.enqueue_with_memory(small + id, 1).await;
        fixture.create_with_memory(small + id, 1, Some(small + id)).await.unwrap();
    }

    fixture.enqueue_with_memory(50, 1).await;
    let ninth = fixture.create_with_memory(50, 1, Some(50)).await;
    assert!(matches!(ninth, Err(CreateError::AdmissionRefused(AdmissionRefusal::Queue { .. }))), "{ninth:?}");
    let newcomer = fixture.create_with_memory(51, 1, None).await;
    assert!(
        matches!(newcomer, Err(CreateError::AdmissionRefused(AdmissionRefusal::Queue { .. }))),
        "{newcomer:?}"
    );
    let line = fixture.store.queue_positions(TWO, fixture.now).await.unwrap();
    assert_eq!(
        (line[0].entry.times_overtaken, line[1].wait_reason.clone()),
        (MAX_OVERTAKES, Some(WaitReason::ReservedFor(0)))
    );

    fixture.end(1).await;
    for id in 0..u128::from(MAX_OVERTAKES) {
        fixture.end(small + id).await;
    }

    fixture.create_with_memory(2, 2 * MEMORY_MB, Some(1)).await.unwrap();
    fixture.end(2).await;
    fixture.create_with_memory(50, 1, Some(50)).await.unwrap();
}

pub async fn a_request_that_waits_for_its_own_quota_blocks_no_other(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    let quotas = vec![Quota { key: QuotaKey::Token(TokenId(3)), limit: 0 }];
    let one = vec![Quota { limit: 1, ..quotas[0].clone() }];
    fixture.store.enqueue(NewQueueEntry { quotas: one, ..fixture.new_entry(1) }, TWO).await.unwrap();

    let refused = fixture.store.enqueue(NewQueueEntry { quotas, ..fixture.new_entry(2) }, TWO).await;
    assert!(matches!(refused, Err(EnqueueError::NeverFits(AdmissionRefusal::Token { limit: 0, .. }))));

    let taken = NewSandbox { admission: AdmissionTerms::default(), ..fixture.new_with_memory(5, 1, None) };
    let by_token = pinfold_lifecycle::Requester { token: TokenId(3), name: "ci".into() };
    let spec = Spec { requested_by: Some(by_token), ..Spec::default() };
    fixture.store.create(NewSandbox { spec: Arc::new(spec), ..taken }, TWO).await.unwrap();
    assert_eq!(fixture.positions().await, [(1, 1, false)]);
    assert!(fixture.create_with_memory(6, 2 * MEMORY_MB, None).await.is_ok());
}

pub async fn the_pool_gives_way_to_the_queue(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.waits(1).await;
    fixture.create_with_memory(2, MEMORY_MB, None).await.unwrap();
    fixture.enqueue(3).await;

    // It fits once the pool has made room, and the pool may not grow meanwhile.
    let filled = fixture.store.fill_pool(fixture.pooled(7), u64::MAX, AdmissionLimits::default()).await;
    assert!(
        matches!(filled, Err(crate::FillError::AdmissionRefused(AdmissionRefusal::Queue { .. }))),
        "{filled:?}"
    );
    assert_eq!(fixture.positions().await, [(3, 1, true)]);
    assert!(matches!(
        fixture.create_with_memory(3, MEMORY_MB, Some(3)).await,
        Err(CreateError::AdmissionRefused(AdmissionRefusal::Memory { .. }))
    ));
    let claim = PoolClaim { limits: TWO, ..fixture.claim_of(1, "mine", None).await };
    let newcomer = fixture.store.claim(claim.clone()).await;
    assert!(
        matches!(newcomer, Err(ClaimError::AdmissionRefused(AdmissionRefusal::Queue { ahead: 1 }))),
        "{newcomer:?}"
    );

    let own = AdmissionTerms { queue_id: Some(QueueId(3)), ..AdmissionTerms::default() };
    let claimed = fixture.store.claim(PoolClaim { admission: own, ..claim }).await;

    assert!(matches!(claimed, Ok(Created::New(_))));
    assert_eq!(fixture.outcome_of(3).await, Some(QueueOutcome::Admitted(SandboxId(1))));
}

pub async fn an_orphan_is_not_blocked_by_the_queue(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.create_with_memory(1, 2 * MEMORY_MB, None).await.unwrap();
    fixture.enqueue(1).await;
    let transition = lease_orphan(SandboxId(2), Generation(4), fixture.ctx());

    let orphan = NewSandbox { transition, ..fixture.new_with_memory(2, 0, None) };

    assert!(fixture.store.create(orphan, AdmissionLimits::default()).await.is_ok());
}

pub async fn ended_queue_entries_are_pruned_like_records(tested: &dyn TestedStore) {
    let mut fixture = StoreFixture::new(tested);
    fixture.enqueue(1).await;
    fixture.enqueue(2).await;
    fixture.store.end_queue_entry(QueueId(1), QueueOutcome::Cancelled, fixture.now).await.unwrap();
    fixture.advance_ms(1_000);

    let before = |at: Timestamp| Retention { records_before: at, history_before: at, now: at };
    fixture.store.prune(before(fixture.now), 10).await.unwrap();

    assert_eq!(fixture.store.queue_entry(QueueId(1)).await.unwrap(), None);
    assert_eq!(fixture.positions().await.len(), 1);
}
