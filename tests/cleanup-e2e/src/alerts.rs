//! The alerts that a server reports: its history, and what fires now.

use anyhow::{Result, ensure};
use pinfold_api::{AlertEvent, AlertState, AlertSubject};

use crate::fixture::RunningServer;

/// One alert, with the event and the sandbox it is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AlertKey {
    pub(crate) name: String,
    pub(crate) subject: Option<(String, String)>,
}

/// Sorted, so that two values can be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedAlerts {
    /// Since the server's start, one entry per firing.
    pub fired: Vec<AlertKey>,
    pub resolved: Vec<AlertKey>,
    /// Firing now.
    pub firing: Vec<AlertKey>,
}

/// More than any run here fires and resolves.
const MOST: u64 = 1_000;

impl AlertKey {
    pub(crate) fn all(name: &str) -> Self {
        Self { name: name.to_owned(), subject: None }
    }

    fn of(name: &str, subject: Option<&AlertSubject>) -> Self {
        let subject = subject.map(|it| (it.event.clone(), it.sandbox_id.clone()));
        Self { name: name.to_owned(), subject }
    }
}

impl ReportedAlerts {
    pub async fn read(server: &RunningServer) -> Result<Self> {
        let history = server.client.alert_history(None, MOST).await?;
        ensure!(history.next.is_none(), "there were more than {MOST}");
        let all = |of: AlertEvent| {
            let entries = history.entries.iter().filter(|entry| entry.event == of);
            entries.map(|entry| AlertKey::of(&entry.name, entry.subject.as_ref())).collect()
        };
        let list = server.client.alerts(Some(AlertState::Firing)).await?;
        let each = |alert: &pinfold_api::Alert| {
            let firings = alert.firings.iter();
            firings.map(|firing| AlertKey::of(&alert.name, firing.subject.as_ref())).collect::<Vec<_>>()
        };
        let firing = list.alerts.iter().flat_map(each).collect();
        let log = Self { fired: all(AlertEvent::Fired), resolved: all(AlertEvent::Resolved), firing };
        Ok(log.sorted())
    }

    pub(crate) fn sorted(mut self) -> Self {
        for list in [&mut self.fired, &mut self.resolved, &mut self.firing] {
            list.sort();
        }
        self
    }

    /// Fails unless both are equal.
    pub fn ensure_equal(&self, expected: &Self) -> Result<()> {
        let lists = [
            ("fired", &self.fired, &expected.fired),
            ("resolved", &self.resolved, &expected.resolved),
            ("firing", &self.firing, &expected.firing),
        ];
        for (which, log, expected) in lists {
            ensure!(log == expected, "{which}: {log:#?} instead of {expected:#?}");
        }
        Ok(())
    }
}
