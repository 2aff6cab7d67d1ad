//! Quotas: checked in the transaction that creates, and counted until a sandbox is proven gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use pinfold_lifecycle::{
    AdmissionLimits, AdmissionRefusal, Generation, Quota, QuotaKey, Request, Requester, Spec, TokenId,
};

use super::TestedStore;
use super::fixture::{StoreFixture, spec};
use crate::{AdmissionTerms, ClaimError, CreateError, Created, NewSandbox, PoolClaim};

const NO_LIMITS: AdmissionLimits =
    AdmissionLimits { sandboxes: None, memory_mb: None, disk_mb: None, processes: None };
const TOKEN: TokenId = TokenId(7);

fn team() -> QuotaKey {
    QuotaKey::Label { name: "team".into(), value: "red".into() }
}

fn labelled(id: u128) -> Spec {
    Spec {
        labels: BTreeMap::from([("team".to_owned(), "red".to_owned())]),
        requested_by: Some(Requester { token: TOKEN, name: "ci".into() }),
        ..spec(id)
    }
}

impl StoreFixture {
    fn with_quota(&self, id: u128, key: QuotaKey, limit: u64) -> NewSandbox {
        let admission = AdmissionTerms { quotas: vec![Quota { key, limit }], queue_id: None };
        NewSandbox { spec: Arc::new(labelled(id)), admission, ..self.new_sandbox(id) }
    }
}

pub async fn concurrent_creates_do_not_exceed_a_quota(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    let mut tasks = Vec::new();
    for id in 1..=40 {
        let key = if id % 2 == 0 { team() } else { QuotaKey::Token(TOKEN) };
        let (store, new) = (fixture.store.clone(), fixture.with_quota(id, key, 6));
        tasks.push(tokio::spawn(async move { store.create(new, NO_LIMITS).await }));
    }

    let (mut created, mut refused) = (0, 0);
    for task in tasks {
        match task.await.unwrap() {
            Ok(_) => created += 1,
            Err(CreateError::AdmissionRefused(AdmissionRefusal::Token {
                taken: 6,
                limit: 6,
                token: TOKEN,
            })) => refused += 1,
            Err(CreateError::AdmissionRefused(AdmissionRefusal::Label {
                taken: 6,
                limit: 6,
                label,
                value,
            })) => {
                assert_eq!((label.as_str(), value.as_str()), ("team", "red"));
                refused += 1;
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    // Each counts for both of its keys, whichever of them has a limit.
    assert_eq!((created, refused), (6, 34));
    assert_eq!(fixture.store.totals().await.unwrap().present(), 6);
}

pub async fn a_quota_is_freed_only_by_proof_of_absence(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.store.create(fixture.with_quota(1, team(), 1), NO_LIMITS).await.unwrap();
    let (cause, grace_ms) = (pinfold_lifecycle::Cause::StoppedByUser, None);
    fixture.request(1, Request::Stop { cause, grace_ms }).await;

    let early = fixture.store.create(fixture.with_quota(2, team(), 1), NO_LIMITS).await;
    fixture.stop_succeeds(1).await;
    let late = fixture.store.create(fixture.with_quota(2, team(), 1), NO_LIMITS).await;

    assert!(matches!(early, Err(CreateError::AdmissionRefused(AdmissionRefusal::Label { .. }))));
    assert!(matches!(late, Ok(Created::New(_))));
}

pub async fn a_stray_counts_for_its_quota_again(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.store.create(fixture.with_quota(1, team(), 1), NO_LIMITS).await.unwrap();
    fixture.end(1).await;
    fixture.request(1, Request::LeaseStray { generation: Generation(1) }).await;

    let refused = fixture.store.create(fixture.with_quota(2, team(), 1), NO_LIMITS).await;
    fixture.stop_succeeds(1).await;
    let admitted = fixture.store.create(fixture.with_quota(2, team(), 1), NO_LIMITS).await;

    assert!(matches!(refused, Err(CreateError::AdmissionRefused(AdmissionRefusal::Label { .. }))));
    assert!(admitted.is_ok());
}

pub async fn a_deleted_sandbox_no_longer_counts_for_its_quota(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.store.create(fixture.with_quota(1, team(), 1), NO_LIMITS).await.unwrap();
    fixture.request(1, Request::Forget).await;
    fixture.stop_succeeds(1).await;

    assert!(fixture.store.create(fixture.with_quota(2, team(), 1), NO_LIMITS).await.is_ok());
}

pub async fn a_pool_claim_is_checked_against_quotas(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.store.create(fixture.with_quota(9, team(), 1), NO_LIMITS).await.unwrap();
    fixture.waits(1).await;
    let admission = |limit| AdmissionTerms { quotas: vec![Quota { key: team(), limit }], queue_id: None };
    let claim = fixture.claim_of(1, "mine", None).await;
    let claim = PoolClaim { spec: Arc::new(labelled(1)), admission: admission(1), ..claim };

    let refused = fixture.store.claim(claim.clone()).await;
    let admitted = fixture.store.claim(PoolClaim { admission: admission(2), ..claim }).await;
    let third = fixture.store.create(fixture.with_quota(2, team(), 2), NO_LIMITS).await;

    assert!(matches!(
        refused,
        Err(ClaimError::AdmissionRefused(AdmissionRefusal::Label { taken: 1, limit: 1, .. }))
    ));
    assert!(matches!(admitted, Ok(Created::New(_))));
    assert!(matches!(
        third,
        Err(CreateError::AdmissionRefused(AdmissionRefusal::Label { taken: 2, limit: 2, .. }))
    ));
}
