//! Looks at the figures every few seconds, and commits what follows: new states, what happened, and what is to be
//! delivered. Of several servers that do so, the one whose commit lands is the one that tells.

use std::sync::Arc;
use std::time::Duration;

use pinfold_alerts::{Alert, AlertState, Figures, Happening, Severity, Stepped, What, step};
use pinfold_store::{AlertChange, AlertHappened, AlertRow, Alerts, NewDelivery};
use tokio::time::{MissedTickBehavior, interval};

use super::{notice, runbook_of};
use crate::{Failure, Service};

/// Never ends by itself.
pub(super) async fn keep_looking(service: Arc<Service>) {
    let mut looks = interval(service.rules().alerts.every.max(Duration::from_millis(10)));
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        if let Err(failure) = service.evaluate().await {
            tracing::error!(why = failure.detail.message, "alerts could not be evaluated");
        }
    }
}

/// States that are read, and what is to be made of them.
pub(crate) struct Draft {
    states: Vec<(Alert, AlertRow)>,
    change: AlertChange,
    happened: Vec<Happening>,
}

impl Service {
    async fn evaluate(&self) -> Result<(), Failure> {
        let seen = self.look_for_alerts().await;
        let config = &self.rules().alerts;
        let mut draft = self.draft().await?;
        for alert in Alert::ALL {
            let state = draft.state_of(*alert);
            let stepped = step(*alert, &state, &seen.figures, &config.rules, config.habits, seen.at);
            draft.put(*alert, &state, stepped)?;
        }
        // If somebody else was quicker, the next look begins from what they made of it.
        self.land(draft, &seen.figures).await.map(drop)
    }

    pub(crate) async fn draft(&self) -> Result<Draft, Failure> {
        let rows = self.host().store.alert_states().await?;
        // What a newer program knows beside these is left as it is.
        let known = |row: AlertRow| row.name.parse().ok().map(|alert| (alert, row));
        let states = rows.into_iter().filter_map(known).collect();
        Ok(Draft { states, change: AlertChange::default(), happened: Vec::new() })
    }

    /// Says whether nobody else was quicker.
    pub(crate) async fn land(&self, mut draft: Draft, figures: &Figures) -> Result<bool, Failure> {
        if draft.change.states.is_empty() && draft.happened.is_empty() {
            return Ok(true);
        }
        for happening in &draft.happened {
            let deliveries = self.deliveries_of(happening, figures)?;
            draft.change.deliveries.extend(deliveries);
        }
        let landed = self.host().store.change_alerts(draft.change).await?;
        if landed {
            draft.happened.iter().for_each(|happening| self.log_alert(happening));
            self.desk().wake.notify_waiters();
        }
        Ok(landed)
    }

    fn deliveries_of(&self, happening: &Happening, figures: &Figures) -> Result<Vec<NewDelivery>, Failure> {
        if !happening.is_told() {
            return Ok(Vec::new());
        }
        let config = &self.rules().alerts;
        let mut told = notice(happening, figures, config);
        let targets = config.route(happening).into_iter();
        let deliveries = targets.map(|target| {
            let id = delivery_id();
            told.delivery_id.clone_from(&id);
            let notice = serde_json::to_string(&told).map_err(Failure::internal)?;
            let name = happening.alert.name().to_owned();
            Ok(NewDelivery { id, at: happening.at, name, target: target.to_string(), notice })
        });
        deliveries.collect()
    }

    /// Everything, whether anybody is called or not.
    fn log_alert(&self, happening: &Happening) {
        let config = &self.rules().alerts;
        let alert = happening.alert;
        let told = pinfold_alerts::message(happening, config.rules.of(alert));
        let (event, severity) = (happening.what.name(), alert.definition().severity);
        let (value, level) = (happening.value, happening.level.number());
        let runbook = runbook_of(alert, config);
        let subject = happening.subject.as_ref();
        let (sandbox_id, of) = (subject.map(|it| &it.sandbox), subject.map(|it| it.event.name()));
        let is_bad = matches!(happening.what, What::Fired | What::Repeated | What::Escalated);
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
                    untold = ?happening.untold,
                    "{told}"
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

impl Draft {
    fn row_of(&self, alert: Alert) -> Option<&AlertRow> {
        self.states.iter().find(|(known, _)| *known == alert).map(|(_, row)| row)
    }

    /// A state that cannot be read is begun anew: what holds is found out by the next look.
    pub(crate) fn state_of(&self, alert: Alert) -> AlertState {
        let read = self.row_of(alert).map(|row| serde_json::from_str(&row.state));
        match read {
            None => AlertState::default(),
            Some(Ok(state)) => state,
            Some(Err(error)) => {
                tracing::error!(alert = alert.name(), %error, "the state of an alert cannot be read");
                AlertState::default()
            }
        }
    }

    pub(crate) fn put(&mut self, alert: Alert, was: &AlertState, stepped: Stepped) -> Result<(), Failure> {
        let Stepped { state, happened } = stepped;
        if state != *was {
            let version = self.row_of(alert).map_or(0, |row| row.version);
            let state = serde_json::to_string(&state).map_err(Failure::internal)?;
            self.change.states.push(AlertRow { name: alert.name().to_owned(), version, state });
        }
        for happening in &happened {
            let entry = serde_json::to_string(happening).map_err(Failure::internal)?;
            self.change.happened.push(AlertHappened {
                at: happening.at,
                name: alert.name().to_owned(),
                entry,
            });
        }
        self.happened.extend(happened);
        Ok(())
    }
}

pub(super) fn delivery_id() -> String {
    format!("dlv_{}", uuid::Uuid::now_v7().simple())
}
