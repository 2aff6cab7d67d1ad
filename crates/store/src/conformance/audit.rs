//! Promises about who asked: kept as it was told, in order, as long as the history.

use pinfold_lifecycle::{SandboxId, TokenId};

use super::Subject;
use super::world::NOON;
use crate::{Note, Retention, Role};

/// More than goes in one transaction.
const MANY: u64 = 25_000;

fn note(number: u64) -> Note {
    Note {
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

pub async fn who_asked_is_read_back_in_pages(subject: &dyn Subject) {
    let audit = subject.audit();
    audit.note(vec![note(0)]).await.unwrap();
    audit.note((1..5).map(note).collect()).await.unwrap();

    let first = audit.notes(0, 3).await.unwrap();
    let rest = audit.notes(first[2].0, 10).await.unwrap();

    let told: Vec<_> = first.into_iter().chain(rest).map(|(_, note)| note).collect();
    assert_eq!(told, (0..5).map(note).collect::<Vec<_>>());
}

pub async fn who_asked_is_kept_as_long_as_the_history(subject: &dyn Subject) {
    let audit = subject.audit();
    for number in 0..4 {
        audit.note(vec![note(number)]).await.unwrap();
    }
    let before = audit.notes(0, 10).await.unwrap();

    let history_before = NOON.after_ms(2);
    let retention = Retention { records_before: NOON, history_before, now: history_before };
    subject.store().prune(retention, 10).await.unwrap();

    assert_eq!(audit.notes(0, 10).await.unwrap(), before[2..]);
    audit.note(vec![note(9)]).await.unwrap();
    assert!(audit.notes(before[3].0, 10).await.unwrap().len() == 1, "a place was used again");
}

pub async fn what_is_past_retention_is_gone_when_there_is_no_more(subject: &dyn Subject) {
    let (audit, store) = (subject.audit(), subject.store());
    audit.note((0..MANY).map(note).collect()).await.unwrap();

    let history_before = NOON.after_ms(MANY);
    let retention = Retention { records_before: NOON, history_before, now: history_before };
    while store.prune(retention, 10).await.unwrap().more {}

    assert_eq!(audit.notes(0, 1).await.unwrap(), []);
}
