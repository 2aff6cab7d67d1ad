//! Quotas: how many sandboxes one token may have, and how many may carry one label value. A sandbox counts until it is
//! proven gone.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{AdmissionRefusal, Spec, TokenId};

/// What a quota counts sandboxes by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuotaKey {
    Token(TokenId),
    Label {
        name: String,
        value: String,
    },
    /// The name of a sandbox. Not configurable: one sandbox has it.
    Name(String),
}

/// One quota that applies to a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Quota {
    pub key: QuotaKey,
    pub limit: u64,
}

/// The configured quotas. Tokens and labels without a quota are unlimited.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QuotaRules {
    /// By token name.
    pub tokens: BTreeMap<String, u64>,
    /// For every token not listed in `tokens`.
    pub each_token: Option<u64>,
    /// By label name.
    pub labels: BTreeMap<String, LabelQuotas>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelQuotas {
    pub values: BTreeMap<String, u64>,
    /// For every value not listed in `values`.
    pub each_value: Option<u64>,
}

impl QuotaRules {
    /// Returns the quotas that apply to this request.
    #[must_use]
    pub fn of(&self, spec: &Spec) -> Vec<Quota> {
        let limit_of = |key: &QuotaKey| match key {
            QuotaKey::Token(_) => {
                let name =
                    spec.requested_by.as_ref().map(|requester| requester.name.as_str()).unwrap_or_default();
                self.tokens.get(name).copied().or(self.each_token)
            }
            QuotaKey::Label { name, value } => {
                let quotas = self.labels.get(name)?;
                quotas.values.get(value).copied().or(quotas.each_value)
            }
            // The store refuses a name that is taken, with the id of the sandbox that has it.
            QuotaKey::Name(_) => None,
        };
        let keys = spec.quota_keys().into_iter();
        keys.filter_map(|key| limit_of(&key).map(|limit| Quota { key, limit })).collect()
    }
}

impl Quota {
    /// Whether one more sandbox fits into the quota.
    pub fn admit(&self, taken: u64) -> Result<(), AdmissionRefusal> {
        if taken < self.limit {
            return Ok(());
        }
        let limit = self.limit;
        Err(match &self.key {
            QuotaKey::Token(token) => AdmissionRefusal::Token { token: *token, taken, limit },
            QuotaKey::Label { name, value } => {
                AdmissionRefusal::Label { label: name.clone(), value: value.clone(), taken, limit }
            }
            QuotaKey::Name(name) => {
                AdmissionRefusal::Label { label: "name".to_owned(), value: name.clone(), taken, limit }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Requester;

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
            requested_by: Some(Requester { token: TokenId(1), name: name.to_owned() }),
            labels: BTreeMap::from([(label.0.to_owned(), label.1.to_owned())]),
            ..Spec::default()
        }
    }

    fn limits_of(spec: &Spec) -> Vec<u64> {
        rules().of(spec).iter().map(|quota| quota.limit).collect()
    }

    #[test]
    fn named_quota_takes_precedence_over_the_common_one() {
        assert_eq!(limits_of(&asked_by("ci", ("team", "red"))), [10, 7]);
        assert_eq!(limits_of(&asked_by("alice", ("team", "blue"))), [3, 2]);
        assert_eq!(limits_of(&asked_by("alice", ("shirt", "red"))), [3]);
        assert_eq!(limits_of(&Spec::default()), [] as [u64; 0]);
    }

    #[test]
    fn reached_quota_is_refused_with_its_key_and_numbers() {
        let quotas = rules().of(&asked_by("alice", ("team", "blue")));

        assert_eq!(quotas[0].admit(2), Ok(()));
        assert_eq!(
            quotas[0].admit(3),
            Err(AdmissionRefusal::Token { token: TokenId(1), taken: 3, limit: 3 })
        );
        let (label, value) = ("team".to_owned(), "blue".to_owned());
        assert_eq!(quotas[1].admit(5), Err(AdmissionRefusal::Label { label, value, taken: 5, limit: 2 }));
    }
}
