//! Evaluates all alerts every few seconds and commits the result: new states, history entries and deliveries. Of
//! several servers, the one whose commit succeeds sends the notifications.

use std::sync::Arc;
use std::time::Duration;

use pinfold_alerts::{
    Alert, AlertChange, AlertInputs, AlertState, AlertTransition, ChangeKind, Severity, step,
};
use pinfold_notify::runbook_of;
use pinfold_store::{self as store, AlertRow, NewAlertRecord};
use tokio::time::{MissedTickBehavior, interval};

use crate::convert::serde_name;
use crate::{Failure, Service};

/// Runs until aborted.
pub(crate) async fn evaluate_loop(service: Arc<Service>) {
    let mut due = interval(service.config.alerts.every.max(Duration::from_millis(10)));
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        due.tick().await;
        if let Err(failure) = service.evaluate().await {
            tracing::error!(
                why = failure.detail.message,
                "alert evaluation failed, retrying at the next interval"
            );
        }
    }
}

/// Alert states as read, and the change to commit.
pub(crate) struct AlertDraft {
    states: Vec<(Alert, AlertRow)>,
    change: store::AlertChange,
    happened: Vec<AlertChange>,
}

impl Service {
    async fn evaluate(&self) -> Result<(), Failure> {
        let snapshot = self.measure_alerts().await;
        let config = &self.config.alerts;
        let policy = config.notification_policy;
        let mut draft = self.load_alert_draft().await?;
        for alert in Alert::ALL {
            let state = draft.state_of(*alert);
            let stepped = step(*alert, &state, &snapshot.inputs, &config.rules, policy, snapshot.at);
            draft.put(*alert, &state, stepped)?;
        }
        // If another server committed first, the next evaluation starts from its states.
        self.commit_alerts(draft, &snapshot.inputs).await.map(drop)
    }

    pub(crate) async fn load_alert_draft(&self) -> Result<AlertDraft, Failure> {
        let rows = self.host.store.alert_states().await?;
        // Alerts of a newer version are left unchanged.
        let known = |row: AlertRow| row.name.parse().ok().map(|alert| (alert, row));
        let states = rows.into_iter().filter_map(known).collect();
        Ok(AlertDraft { states, change: store::AlertChange::default(), happened: Vec::new() })
    }

    /// Commits a change. False: another server committed first.
    pub(crate) async fn commit_alerts(
        &self,
        mut draft: AlertDraft,
        inputs: &AlertInputs,
    ) -> Result<bool, Failure> {
        if draft.change.states.is_empty() && draft.happened.is_empty() {
            return Ok(true);
        }
        for alert_change in &draft.happened {
            let deliveries = self.notifier.deliveries_of(alert_change, inputs).map_err(Failure::internal)?;
            draft.change.deliveries.extend(deliveries);
        }
        let committed = self.host.store.change_alerts(draft.change).await?;
        if committed {
            draft.happened.iter().for_each(|alert_change| self.log_alert(alert_change));
            self.notifier.wake();
        }
        Ok(committed)
    }

    /// Logs every alert event, notified or not.
    fn log_alert(&self, alert_change: &AlertChange) {
        let config = &self.config.alerts;
        let alert = alert_change.alert;
        let message = pinfold_alerts::message(alert_change, config.rules.of(alert));
        let (event, severity) = (alert_change.kind.name(), alert.definition().severity);
        let (value, level) = (alert_change.value, alert_change.level.number());
        let runbook = runbook_of(alert, config);
        let subject = alert_change.subject.as_ref();
        let (sandbox_id, of) = (subject.map(|it| &it.sandbox), subject.map(|it| it.event.name()));
        let suppressed_by = alert_change.suppressed.as_ref().map(serde_name);
        let is_bad =
            matches!(alert_change.kind, ChangeKind::Fired | ChangeKind::Repeated | ChangeKind::Escalated);
        macro_rules! line {
            ($log:ident) => {
                tracing::$log!(
                    alert = alert.name(),
                    event,
                    severity = severity.name(),
                    value,
                    level,
                    runbook,
                    sandbox_id,
                    sandbox_event = of,
                    suppressed_by,
                    "{message}"
                )
            };
        }
        match severity {
            Severity::Critical if is_bad => line!(error),
            Severity::Warning if is_bad => line!(warn),
            Severity::Critical | Severity::Warning | Severity::Info => line!(info),
        }
    }
}

impl AlertDraft {
    fn row_of(&self, alert: Alert) -> Option<&AlertRow> {
        self.states.iter().find(|(known, _)| *known == alert).map(|(_, row)| row)
    }

    /// The state of an alert. An unreadable state starts over, and the next evaluation decides.
    pub(crate) fn state_of(&self, alert: Alert) -> AlertState {
        let read = self.row_of(alert).map(|row| serde_json::from_str(&row.state));
        match read {
            None => AlertState::default(),
            Some(Ok(state)) => state,
            Some(Err(error)) => {
                tracing::error!(alert = alert.name(), %error, "the stored state of an alert is unreadable, starting over");
                AlertState::default()
            }
        }
    }

    pub(crate) fn put(
        &mut self,
        alert: Alert,
        was: &AlertState,
        stepped: AlertTransition,
    ) -> Result<(), Failure> {
        let AlertTransition { state, changes: happened } = stepped;
        if state != *was {
            let version = self.row_of(alert).map_or(0, |row| row.version);
            let state = serde_json::to_string(&state).map_err(Failure::internal)?;
            self.change.states.push(AlertRow { name: alert.name().to_owned(), version, state });
        }
        for alert_change in &happened {
            let entry = serde_json::to_string(alert_change).map_err(Failure::internal)?;
            self.change.records.push(NewAlertRecord {
                at: alert_change.at,
                name: alert.name().to_owned(),
                entry,
            });
        }
        self.happened.extend(happened);
        Ok(())
    }
}
