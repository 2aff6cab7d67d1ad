//! What the ledger says that was acknowledged: all since the last judgement, and some of what was judged before.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_checker::{Command, Execution, Promises, Sandbox, Wish};
use serde_json::Value;

use crate::ledger::{Note, Wished};

/// Of what was judged before, so much is judged again.
const AGAIN: usize = 12;

#[derive(Debug, Default)]
pub(crate) struct Acknowledged {
    pub(crate) promises: Promises,
    /// Those that had a body, as they were told.
    pub(crate) ready: BTreeSet<String>,
    /// Those that somebody has asked to end, with an answer or without.
    pub(crate) ending: BTreeSet<String>,
    /// The proof of each end.
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
    pub(crate) fn by(notes: &[Note], seed: u64) -> Self {
        let judged = notes.iter().rposition(|note| *note == Note::Judged).map_or(0, |last| last + 1);
        let mut all = Self::default();
        let mut wishes = BTreeMap::new();
        all.read(&notes[..judged], &mut wishes);
        // What was asked for and never answered was asked for again when it was judged.
        wishes.clear();
        all.thin_out(&mut fastrand::Rng::with_seed(seed));
        all.read(&notes[judged..], &mut wishes);
        all.promises.unanswered = wishes.into_values().collect();
        all
    }

    fn read(&mut self, notes: &[Note], wishes: &mut BTreeMap<String, Wish>) {
        for note in notes.iter().cloned() {
            match note {
                Note::Started { .. } | Note::Judged => {}
                Note::Wished { key, of, what } => {
                    wishes.insert(key.clone(), Wish { key, path: Wished::path(of), what });
                }
                Note::Made { key, id, is_ready } => {
                    if let Some(wish) = wishes.remove(&key) {
                        self.promises.sandboxes.push(Sandbox { id: id.clone(), wish });
                    }
                    self.ready.extend(is_ready.then_some(id));
                }
                Note::Ran { id, sandbox, says, exits_with, has_ended, exit_code } => {
                    let command = Command { says, exits_with };
                    let exit_code = has_ended.then_some(exit_code);
                    self.promises.executions.push(Execution { id, sandbox, command, exit_code });
                }
                Note::Kept { execution, sandbox, name, content } => {
                    self.artifacts.push(Artifact { execution, sandbox, name, content });
                }
                Note::Ending { id, forget } => {
                    self.promises.forgotten.extend(forget.then(|| id.clone()));
                    self.ending.insert(id);
                }
                Note::Ended { id, receipt } => {
                    self.promises.deleted.insert(id.clone());
                    self.receipts.insert(id, receipt);
                }
            }
        }
    }

    /// Who was forgotten or ended stays so in our memory: that takes no request.
    fn thin_out(&mut self, rng: &mut fastrand::Rng) {
        rng.shuffle(&mut self.promises.sandboxes);
        self.promises.sandboxes.truncate(AGAIN);
        rng.shuffle(&mut self.promises.executions);
        self.promises.executions.truncate(AGAIN);
        rng.shuffle(&mut self.artifacts);
        self.artifacts.truncate(AGAIN);
        let kept: BTreeSet<_> = self.promises.sandboxes.iter().map(|sandbox| sandbox.id.clone()).collect();
        self.promises.deleted.retain(|id| kept.contains(id));
        self.receipts.retain(|id, _| kept.contains(id));
        self.ready.retain(|id| kept.contains(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wished(key: &str) -> Note {
        Note::Wished { key: key.into(), of: Wished::Sandbox, what: Value::Null }
    }

    fn made(key: &str) -> Note {
        Note::Made { key: key.into(), id: format!("sbx_{key}"), is_ready: true }
    }

    fn ids(acknowledged: &Acknowledged) -> Vec<&str> {
        acknowledged.promises.sandboxes.iter().map(|sandbox| sandbox.id.as_str()).collect()
    }

    #[test]
    fn a_wish_is_unanswered_until_something_is_made_of_it() {
        let acknowledged = Acknowledged::by(&[wished("a"), wished("b"), made("a")], 0);

        assert_eq!(ids(&acknowledged), ["sbx_a"]);
        let unanswered: Vec<_> = acknowledged.promises.unanswered.iter().map(|wish| &wish.key).collect();
        assert_eq!(unanswered, ["b"]);
    }

    #[test]
    fn all_since_the_last_judgement_is_judged_and_some_of_what_was_before() {
        let keys: Vec<_> = (0..100).map(|number| number.to_string()).collect();
        let lives =
            |keys: &[String]| keys.iter().flat_map(|key| [wished(key), made(key)]).collect::<Vec<_>>();
        let notes = [lives(&keys[..50]), vec![Note::Judged], lives(&keys[50..])].concat();

        let acknowledged = Acknowledged::by(&notes, 7);

        let ids = ids(&acknowledged);
        assert_eq!(ids.len(), AGAIN + 50);
        assert!(keys[50..].iter().all(|key| ids.contains(&format!("sbx_{key}").as_str())));
    }

    #[test]
    fn a_power_cut_before_the_judgement_leaves_everything_to_be_judged() {
        let started = Note::Started { boot_id: "second".into() };

        let acknowledged = Acknowledged::by(&[wished("a"), made("a"), started, wished("b")], 0);

        assert_eq!(ids(&acknowledged), ["sbx_a"]);
        assert_eq!(acknowledged.promises.unanswered.len(), 1);
    }
}
