//! Which alerts a server tells of: since it began, and now.

use anyhow::{Result, ensure};
use pinfold_api::{AlertEvent, AlertState, AlertSubject};

use crate::ground::Served;

/// One alert, and the sandbox that it is about with what is told of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct About {
    pub(crate) name: String,
    pub(crate) subject: Option<(String, String)>,
}

/// In order, so that two of these can be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alerts {
    /// Since the beginning, each as often as it did.
    pub fired: Vec<About>,
    pub resolved: Vec<About>,
    /// Now.
    pub firing: Vec<About>,
}

/// More than any crowd fires and resolves.
const MOST: u64 = 1_000;

impl About {
    pub(crate) fn all(name: &str) -> Self {
        Self { name: name.to_owned(), subject: None }
    }

    fn of(name: &str, subject: Option<&AlertSubject>) -> Self {
        let subject = subject.map(|it| (it.event.clone(), it.sandbox_id.clone()));
        Self { name: name.to_owned(), subject }
    }
}

impl Alerts {
    pub async fn told_by(served: &Served) -> Result<Self> {
        let history = served.client.alert_history(None, MOST).await?;
        ensure!(history.next.is_none(), "there were more than {MOST}");
        let all = |of: AlertEvent| {
            let entries = history.entries.iter().filter(|entry| entry.event == of);
            entries.map(|entry| About::of(&entry.name, entry.subject.as_ref())).collect()
        };
        let list = served.client.alerts(Some(AlertState::Firing)).await?;
        let each = |alert: &pinfold_api::Alert| {
            let firings = alert.firings.iter();
            firings.map(|firing| About::of(&alert.name, firing.subject.as_ref())).collect::<Vec<_>>()
        };
        let firing = list.alerts.iter().flat_map(each).collect();
        let told = Self { fired: all(AlertEvent::Fired), resolved: all(AlertEvent::Resolved), firing };
        Ok(told.in_order())
    }

    pub(crate) fn in_order(mut self) -> Self {
        for list in [&mut self.fired, &mut self.resolved, &mut self.firing] {
            list.sort();
        }
        self
    }

    /// These and no others.
    pub fn are(&self, expected: &Self) -> Result<()> {
        let lists = [
            ("fired", &self.fired, &expected.fired),
            ("resolved", &self.resolved, &expected.resolved),
            ("firing", &self.firing, &expected.firing),
        ];
        for (which, told, expected) in lists {
            ensure!(told == expected, "{which}: {told:#?}, and not {expected:#?}");
        }
        Ok(())
    }
}
