//! Checks a store after its writer was killed: no acknowledged commit is missing, and no transaction is half written.

use std::path::Path;

use pinfold_lifecycle::{SandboxId, invariants};
use pinfold_store::{Row, SandboxFilter, Seq, Store};
use pinfold_store_sqlite::SqliteStore;

use crate::run::{Ack, Acks};

/// Replaces `acks` with what the store holds, so that commits whose acknowledgement was not read count from then on.
pub(crate) fn check(directory: &Path, acks: &mut Acks) {
    let store = SqliteStore::open(directory).unwrap();
    assert_eq!(store.inconsistencies().unwrap(), [] as [String; 0]);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        for (id, ack) in acks.iter() {
            match store.load(SandboxId(*id)).await.unwrap() {
                Some(Row::Readable(stored)) => {
                    assert!(stored.version.0 >= ack.version, "{ack:?} is missing: {stored:?}");
                }
                Some(Row::Unreadable(row)) => panic!("{row:?}"),
                None => assert!(ack.may_be_gone, "{id} is gone after {ack:?}"),
            }
            let history = store.history(Some(SandboxId(*id)), Seq(0), 1_000).await.unwrap();
            assert!(
                history.iter().any(|row| row.seq == Seq(ack.version)),
                "the last record of {ack:?} is not in {history:?}"
            );
        }
        acks.clear();
        for row in store.list(SandboxFilter::All, None, 100_000).await.unwrap() {
            match row {
                Row::Readable(stored) => {
                    assert_eq!(invariants::violated(&stored.sandbox, &stored.policy), None);
                    let ack = Ack { version: stored.version.0, may_be_gone: stored.sandbox.forget };
                    acks.insert(stored.sandbox.id.0, ack);
                }
                Row::Unreadable(row) => panic!("{row:?}"),
            }
        }
    });
}
