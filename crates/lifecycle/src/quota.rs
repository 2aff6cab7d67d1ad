//! Limits for those who ask: how many sandboxes one token may have, and how many may carry one value of a label. They
//! are counted until they are proven gone, like everything else that is limited.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Scarcity, Spec, TokenId};

/// What sandboxes are counted by besides all together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuotaKey {
    Token(TokenId),
    Label { name: String, value: String },
}

/// One limit that a wish has to keep.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Quota {
    pub key: QuotaKey,
    pub limit: u64,
}

/// What was decided about tokens and labels. What is not named is not limited.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QuotaRules {
    /// By the name of the token.
    pub tokens: BTreeMap<String, u64>,
    /// Of every other token.
    pub each_token: Option<u64>,
    /// By the name of the label.
    pub labels: BTreeMap<String, LabelQuotas>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelQuotas {
    pub values: BTreeMap<String, u64>,
    /// Of every other value.
    pub each_value: Option<u64>,
}

impl QuotaRules {
    /// Those that concern this wish.
    #[must_use]
    pub fn of(&self, spec: &Spec) -> Vec<Quota> {
        let limit_of = |key: &QuotaKey| match key {
            QuotaKey::Token(_) => {
                let name = spec.asked_by.as_ref().map(|asker| asker.name.as_str()).unwrap_or_default();
                self.tokens.get(name).copied().or(self.each_token)
            }
            QuotaKey::Label { name, value } => {
                let quotas = self.labels.get(name)?;
                quotas.values.get(value).copied().or(quotas.each_value)
            }
        };
        let keys = spec.quota_keys().into_iter();
        keys.filter_map(|key| limit_of(&key).map(|limit| Quota { key, limit })).collect()
    }
}

impl Quota {
    /// Whether one more may be counted by its key.
    pub fn admit(&self, taken: u64) -> Result<(), Scarcity> {
        if taken < self.limit {
            return Ok(());
        }
        let limit = self.limit;
        Err(match &self.key {
            QuotaKey::Token(token) => Scarcity::Token { token: *token, taken, limit },
            QuotaKey::Label { name, value } => {
                Scarcity::Label { label: name.clone(), value: value.clone(), taken, limit }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Asker;

    fn limits(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
        pairs.iter().map(|(name, limit)| ((*name).to_owned(), *limit)).collect()
    }

    fn rules() -> QuotaRules {
        let team = LabelQuotas { values: limits(&[("red", 7)]), each_value: Some(2) };
        QuotaRules {
            tokens: limits(&[("ci", 10)]),
            each_token: Some(3),
            labels: BTreeMap::from([("team".to_owned(), team)]),
        }
    }

    fn asked_by(name: &str, label: (&str, &str)) -> Spec {
        Spec {
            asked_by: Some(Asker { token: TokenId(1), name: name.to_owned() }),
            labels: BTreeMap::from([(label.0.to_owned(), label.1.to_owned())]),
            ..Spec::default()
        }
    }

    fn limits_of(spec: &Spec) -> Vec<u64> {
        rules().of(spec).iter().map(|quota| quota.limit).collect()
    }

    #[test]
    fn what_is_named_has_its_own_limit_and_all_else_the_common_one() {
        assert_eq!(limits_of(&asked_by("ci", ("team", "red"))), [10, 7]);
        assert_eq!(limits_of(&asked_by("alice", ("team", "blue"))), [3, 2]);
        assert_eq!(limits_of(&asked_by("alice", ("shirt", "red"))), [3]);
        assert_eq!(limits_of(&Spec::default()), [] as [u64; 0]);
    }

    #[test]
    fn who_has_as_many_as_it_may_is_told_which_quota_and_how_many() {
        let quotas = rules().of(&asked_by("alice", ("team", "blue")));

        assert_eq!(quotas[0].admit(2), Ok(()));
        assert_eq!(quotas[0].admit(3), Err(Scarcity::Token { token: TokenId(1), taken: 3, limit: 3 }));
        let (label, value) = ("team".to_owned(), "blue".to_owned());
        assert_eq!(quotas[1].admit(5), Err(Scarcity::Label { label, value, taken: 5, limit: 2 }));
    }
}
