//! What was acknowledged, according to the ledger: everything since the last verification, and a sample of what
//! was verified before.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_checker::{Command, CreateRequest, Execution, Promises, Sandbox};
use serde_json::Value;

use crate::ledger::{Entry, RequestKind};

/// Size of the sample that is verified again.
const SAMPLE: usize = 12;

#[derive(Debug, Default)]
pub(crate) struct Acknowledged {
    pub(crate) promises: Promises,
    /// Sandboxes that were reported as ready.
    pub(crate) ready: BTreeSet<String>,
    /// Sandboxes that a client asked to end, with an answer or without.
    pub(crate) ending: BTreeSet<String>,
    /// The receipt of each ended sandbox.
    pub(crate) receipts: BTreeMap<String, Value>,
    pub(crate) artifacts: Vec<Artifact>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Artifact {
    pub(crate) execution: String,
    pub(crate) sandbox: String,
    pub(crate) name: String,
    pub(crate) content: String,
}

impl Acknowledged {
    pub(crate) fn from_entries(entries: &[Entry], seed: u64) -> Self {
        let verified = entries.iter().rposition(|entry| *entry == Entry::Verified).map_or(0, |last| last + 1);
        let mut all = Self::default();
        let mut requests = BTreeMap::new();
        all.read(&entries[..verified], &mut requests);
        // Unanswered requests of earlier rounds were repeated by their verification.
        requests.clear();
        all.keep_sample(&mut fastrand::Rng::with_seed(seed));
        all.read(&entries[verified..], &mut requests);
        all.promises.unanswered = requests.into_values().collect();
        all
    }

    fn read(&mut self, entries: &[Entry], requests: &mut BTreeMap<String, CreateRequest>) {
        for entry in entries.iter().cloned() {
            match entry {
                Entry::Started { .. } | Entry::Verified => {}
                Entry::Requested { key, of, body } => {
                    requests.insert(key.clone(), CreateRequest { key, path: RequestKind::path(of), body });
                }
                Entry::Created { key, id, is_ready } => {
                    if let Some(request) = requests.remove(&key) {
                        self.promises.sandboxes.push(Sandbox { id: id.clone(), request });
                    }
                    self.ready.extend(is_ready.then_some(id));
                }
                Entry::Ran { id, sandbox, says, exits_with, has_ended, exit_code } => {
                    let command = Command { says, exits_with };
                    let exit_code = has_ended.then_some(exit_code);
                    self.promises.executions.push(Execution { id, sandbox, command, exit_code });
                }
                Entry::Kept { execution, sandbox, name, content } => {
                    self.artifacts.push(Artifact { execution, sandbox, name, content });
                }
                Entry::Ending { id, forget } => {
                    self.promises.forgotten.extend(forget.then(|| id.clone()));
                    self.ending.insert(id);
                }
                Entry::Ended { id, receipt } => {
                    self.promises.deleted.insert(id.clone());
                    self.receipts.insert(id, receipt);
                }
            }
        }
    }

    /// Keeps all forgotten and ending ids: they cost no request.
    fn keep_sample(&mut self, rng: &mut fastrand::Rng) {
        rng.shuffle(&mut self.promises.sandboxes);
        self.promises.sandboxes.truncate(SAMPLE);
        rng.shuffle(&mut self.promises.executions);
        self.promises.executions.truncate(SAMPLE);
        rng.shuffle(&mut self.artifacts);
        self.artifacts.truncate(SAMPLE);
        let kept: BTreeSet<_> = self.promises.sandboxes.iter().map(|sandbox| sandbox.id.clone()).collect();
        self.promises.deleted.retain(|id| kept.contains(id));
        self.receipts.retain(|id, _| kept.contains(id));
        self.ready.retain(|id| kept.contains(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requested(key: &str) -> Entry {
        Entry::Requested { key: key.into(), of: RequestKind::Sandbox, body: Value::Null }
    }

    fn created(key: &str) -> Entry {
        Entry::Created { key: key.into(), id: format!("sbx_{key}"), is_ready: true }
    }

    fn ids(acknowledged: &Acknowledged) -> Vec<&str> {
        acknowledged.promises.sandboxes.iter().map(|sandbox| sandbox.id.as_str()).collect()
    }

    #[test]
    fn a_request_is_unanswered_until_a_sandbox_is_created() {
        let acknowledged = Acknowledged::from_entries(&[requested("a"), requested("b"), created("a")], 0);

        assert_eq!(ids(&acknowledged), ["sbx_a"]);
        let unanswered: Vec<_> =
            acknowledged.promises.unanswered.iter().map(|request| &request.key).collect();
        assert_eq!(unanswered, ["b"]);
    }

    #[test]
    fn everything_since_the_last_verification_is_verified_and_a_sample_of_what_was_before() {
        let keys: Vec<_> = (0..100).map(|number| number.to_string()).collect();
        let lives =
            |keys: &[String]| keys.iter().flat_map(|key| [requested(key), created(key)]).collect::<Vec<_>>();
        let entries = [lives(&keys[..50]), vec![Entry::Verified], lives(&keys[50..])].concat();

        let acknowledged = Acknowledged::from_entries(&entries, 7);

        let ids = ids(&acknowledged);
        assert_eq!(ids.len(), SAMPLE + 50);
        assert!(keys[50..].iter().all(|key| ids.contains(&format!("sbx_{key}").as_str())));
    }

    #[test]
    fn a_power_cut_before_the_verification_leaves_everything_to_be_verified() {
        let started = Entry::Started { boot_id: "second".into() };

        let acknowledged =
            Acknowledged::from_entries(&[requested("a"), created("a"), started, requested("b")], 0);

        assert_eq!(ids(&acknowledged), ["sbx_a"]);
        assert_eq!(acknowledged.promises.unanswered.len(), 1);
    }
}
