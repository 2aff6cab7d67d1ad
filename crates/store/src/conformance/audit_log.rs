//! The audit log: read back unchanged and in order, and kept as long as the history.

use pinfold_lifecycle::{SandboxId, TokenId};

use super::TestedStore;
use super::fixture::NOON;
use crate::{AuditRecord, Retention, Role};

/// More than goes in one transaction.
const MANY: u64 = 25_000;

fn note(number: u64) -> AuditRecord {
    AuditRecord {
        at: NOON.after_ms(number),
        token: TokenId(7),
        name: "the night shift".to_owned(),
        role: Role::Operator,
        request_id: format!("req_{number}"),
        method: "DELETE".to_owned(),
        path: "/api/sandbox/x".to_owned(),
        status: 200,
        sandbox: Some(SandboxId(3)),
    }
}

pub async fn audit_records_are_read_back_in_pages(tested: &dyn TestedStore) {
    let audit = tested.audit_log();
    audit.append_audit(vec![note(0)]).await.unwrap();
    audit.append_audit((1..5).map(note).collect()).await.unwrap();

    let first = audit.audit_records(0, 3).await.unwrap();
    let rest = audit.audit_records(first[2].0, 10).await.unwrap();

    let listed: Vec<_> = first.into_iter().chain(rest).map(|(_, note)| note).collect();
    assert_eq!(listed, (0..5).map(note).collect::<Vec<_>>());
}

pub async fn audit_records_are_kept_as_long_as_the_history(tested: &dyn TestedStore) {
    let audit = tested.audit_log();
    for number in 0..4 {
        audit.append_audit(vec![note(number)]).await.unwrap();
    }
    let before = audit.audit_records(0, 10).await.unwrap();

    let history_before = NOON.after_ms(2);
    let retention = Retention { records_before: NOON, history_before, now: history_before };
    tested.store().prune(retention, 10).await.unwrap();

    assert_eq!(audit.audit_records(0, 10).await.unwrap(), before[2..]);
    audit.append_audit(vec![note(9)]).await.unwrap();
    assert!(audit.audit_records(before[3].0, 10).await.unwrap().len() == 1, "a record number was reused");
}

pub async fn all_that_is_past_retention_is_deleted_when_no_more_is_reported(tested: &dyn TestedStore) {
    let (audit, store) = (tested.audit_log(), tested.store());
    audit.append_audit((0..MANY).map(note).collect()).await.unwrap();

    let history_before = NOON.after_ms(MANY);
    let retention = Retention { records_before: NOON, history_before, now: history_before };
    while store.prune(retention, 10).await.unwrap().more {}

    assert_eq!(audit.audit_records(0, 1).await.unwrap(), []);
}
