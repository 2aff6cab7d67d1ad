//! The alerts API: current states, history, deliveries, acknowledgements, silences and tests.

use pinfold_alerts::{
    Alert, AlertChange, AlertInstance, AlertRefusal, AlertRequest, AlertState, Evaluation, Phase,
    apply_request, evaluate, message,
};
use pinfold_api as api;
use pinfold_lifecycle::Timestamp;
use pinfold_notify::{delivery_id, runbook_of, severity};
use pinfold_store::{AlertRecord, Delivery, DeliveryState, NewDelivery};

use super::convert::{rfc3339, serde_name};
use super::{Failure, Service};
use crate::alert_evaluation::AlertSnapshot;

/// Optimistic commits are retried this often; more conflicts in a row do not happen in practice.
const COMMIT_ATTEMPTS: usize = 10;
const LONGEST_SILENCE_S: u64 = 30 * 86_400;
const LONGEST_REASON: usize = 500;

impl Service {
    /// All alerts, or those in one state.
    pub async fn alerts(&self, state: Option<api::AlertState>) -> Result<api::AlertList, Failure> {
        let snapshot = self.latest_alert_snapshot().await;
        let draft = self.load_alert_draft().await?;
        let all = Alert::ALL.iter().map(|alert| self.view(*alert, &draft.state_of(*alert), &snapshot));
        Ok(api::AlertList {
            alerts: all.filter(|alert| state.is_none_or(|state| alert.state == state)).collect(),
            impact: pinfold_notify::impact(&snapshot.inputs),
            evaluated_at: rfc3339(snapshot.at),
        })
    }

    /// Firing alerts, most severe first.
    pub(super) async fn active_alerts(&self) -> Result<Vec<api::ActiveAlert>, Failure> {
        let (draft, now) = (self.load_alert_draft().await?, self.now());
        let mut active = Vec::new();
        for alert in Alert::ALL {
            let state = draft.state_of(*alert);
            let definition = alert.definition();
            active.extend(state.firing().map(|(instance, firing)| api::ActiveAlert {
                name: alert.name().to_owned(),
                title: definition.title.to_owned(),
                severity: severity(definition.severity),
                subject: subject(instance.subject.as_ref()),
                since: rfc3339(firing.since),
                acknowledged: firing.acknowledged.is_some(),
                silenced: state.is_silent(now),
                runbook: runbook_of(*alert, &self.config.alerts),
            }));
        }
        active.sort_by_key(|alert| std::cmp::Reverse(alert.severity));
        Ok(active)
    }

    pub async fn alert_history(
        &self,
        of: Option<&str>,
        before: Option<u64>,
        limit: usize,
    ) -> Result<api::AlertHistory, Failure> {
        let of = of.map(parse_alert).transpose()?.map(|alert| alert.name().to_owned());
        let before = before.map(|before| i64::try_from(before).unwrap_or(i64::MAX));
        let mut records = self.host.store.alert_history(of, before, limit.saturating_add(1)).await?;
        let more = records.len() > limit;
        records.truncate(limit);
        let next = records.last().filter(|_| more).map(|record| unsigned(record.seq));
        let entries = records.iter().filter_map(|record| self.entry(record)).collect();
        Ok(api::AlertHistory { entries, next })
    }

    pub async fn alert_deliveries(
        &self,
        before: Option<u64>,
        limit: usize,
    ) -> Result<api::AlertDeliveries, Failure> {
        let before = before.map(|before| i64::try_from(before).unwrap_or(i64::MAX));
        let mut rows = self.host.store.deliveries(before, limit.saturating_add(1)).await?;
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = rows.last().filter(|_| more).map(|row| unsigned(row.seq));
        Ok(api::AlertDeliveries { deliveries: rows.iter().map(delivery).collect(), next })
    }

    /// Stops further notifications about the current firings.
    pub async fn acknowledge_alert(&self, name: &str, by: &str) -> Result<api::Alert, Failure> {
        self.apply_alert_request(name, &AlertRequest::Acknowledge { by: by.to_owned() }).await
    }

    pub async fn silence_alert(
        &self,
        name: &str,
        asked: &api::SilenceAlert,
        by: &str,
    ) -> Result<api::Alert, Failure> {
        let reason = asked.reason.trim();
        if reason.is_empty() || reason.len() > LONGEST_REASON {
            return Err(Failure::bad_input("reason", format!("1 to {LONGEST_REASON} bytes are allowed")));
        }
        let until = self.end_of_silence(asked)?;
        let silence = AlertRequest::Silence { until, reason: reason.to_owned(), by: by.to_owned() };
        self.apply_alert_request(name, &silence).await
    }

    /// Ending a silence that does not exist changes nothing.
    pub async fn unsilence_alert(&self, name: &str, by: &str) -> Result<api::Alert, Failure> {
        self.apply_alert_request(name, &AlertRequest::Unsilence { by: by.to_owned() }).await
    }

    /// Sends a test notification to every configured target and returns each result.
    pub async fn test_alerts(&self) -> api::AlertTest {
        let now = self.now();
        tracing::info!(alert = "test", "a test of alerts was requested");
        let logged = api::AlertTestResult {
            target: "log".to_owned(),
            delivered: true,
            message: "written to this server's log".to_owned(),
        };
        let targets = self.config.alerts.targets();
        let sent = targets.iter().map(|target| async {
            let id = delivery_id();
            let notice = test_notice(&id, now, &self.config.alerts.runbook);
            let notice = serde_json::to_string(&notice).unwrap_or_default();
            let name = "test".to_owned();
            let delivery = NewDelivery { id, at: now, name, target: target.to_string(), notice };
            let sent = self.notifier.send(*target, &delivery).await;
            let delivered = sent.is_ok();
            let message = sent.unwrap_or_else(|error| error.to_string());
            api::AlertTestResult { target: target.to_string(), delivered, message }
        });
        let mut results = vec![logged];
        results.extend(futures_util::future::join_all(sent).await);
        api::AlertTest { results }
    }

    /// The last evaluated values; a process without the evaluation loop measures now.
    pub(super) async fn latest_alert_snapshot(&self) -> AlertSnapshot {
        match self.alerts.last_snapshot() {
            Some(snapshot) => snapshot,
            None => self.measure_alerts().await,
        }
    }

    async fn apply_alert_request(&self, name: &str, asked: &AlertRequest) -> Result<api::Alert, Failure> {
        let alert = parse_alert(name)?;
        let snapshot = self.latest_alert_snapshot().await;
        for _ in 0..COMMIT_ATTEMPTS {
            let mut draft = self.load_alert_draft().await?;
            let was = draft.state_of(alert);
            let stepped = apply_request(alert, &was, asked.clone(), self.now()).map_err(refusal_failure)?;
            let state = stepped.state.clone();
            draft.put(alert, &was, stepped)?;
            if self.commit_alerts(draft, &snapshot.inputs).await? {
                return Ok(self.view(alert, &state, &snapshot));
            }
        }
        Err(Failure::unavailable("the alert keeps changing; try again"))
    }

    fn end_of_silence(&self, asked: &api::SilenceAlert) -> Result<Timestamp, Failure> {
        let now = self.now();
        let until = match (&asked.until, asked.for_s) {
            (Some(until), None) => until
                .parse::<jiff::Timestamp>()
                .map(|at| Timestamp(at.as_millisecond()))
                .map_err(|error| Failure::bad_input("until", error))?,
            (None, Some(seconds @ 1..=LONGEST_SILENCE_S)) => now.after_ms(seconds * 1_000),
            (None, Some(_)) => {
                let why = format!("1 to {LONGEST_SILENCE_S} seconds are allowed");
                return Err(Failure::bad_input("for", why));
            }
            (None, None) | (Some(_), Some(_)) => {
                return Err(Failure::bad_input("until", "give either `until` or `for`"));
            }
        };
        if until.ms_since(now) > LONGEST_SILENCE_S * 1_000 {
            return Err(Failure::bad_input("until", "a silence may last at most 30 days"));
        }
        Ok(until)
    }

    fn view(&self, alert: Alert, state: &AlertState, snapshot: &AlertSnapshot) -> api::Alert {
        let (config, now) = (&self.config.alerts, self.now());
        let (definition, rule) = (alert.definition(), config.rules.of(alert));
        let reading = evaluate(alert, &snapshot.inputs, rule);
        let silence = state.silence.as_ref().filter(|silence| now < silence.until);
        api::Alert {
            name: alert.name().to_owned(),
            title: definition.title.to_owned(),
            meaning: definition.meaning.to_owned(),
            severity: severity(definition.severity),
            state: shown_state(&state.instances, reading),
            value: reading.value(),
            threshold: rule.threshold,
            sustained_s: rule.sustained_ms / 1_000,
            minimum: rule.minimum,
            cooldown_s: config.notification_policy.cooldown_ms / 1_000,
            level: definition.level.number(),
            affects: definition.affects.iter().map(|objective| objective.name().to_owned()).collect(),
            runbook: runbook_of(alert, config),
            firings: firings(state),
            silence: silence.map(|silence| api::AlertSilence {
                until: rfc3339(silence.until),
                reason: silence.reason.clone(),
                by: silence.by.clone(),
                at: rfc3339(silence.at),
            }),
        }
    }

    /// One history entry. None: a newer version wrote it.
    fn entry(&self, record: &AlertRecord) -> Option<api::AlertEntry> {
        let alert_change: AlertChange = serde_json::from_str(&record.record.entry).ok()?;
        let alert = alert_change.alert;
        Some(api::AlertEntry {
            seq: unsigned(record.seq),
            at: rfc3339(alert_change.at),
            name: alert.name().to_owned(),
            severity: severity(alert.definition().severity),
            event: pinfold_notify::event(&alert_change.kind),
            message: message(&alert_change, self.config.alerts.rules.of(alert)),
            subject: subject(alert_change.subject.as_ref()),
            value: alert_change.value,
            level: alert_change.level.number(),
            notified: alert_change.notifies(),
            suppressed_by: alert_change.suppressed.map(|why| serde_name(&why)),
        })
    }
}

fn parse_alert(name: &str) -> Result<Alert, Failure> {
    name.parse().map_err(|error: pinfold_alerts::UnknownAlert| {
        Failure::new(api::ErrorCode::UnknownAlert, error.to_string())
    })
}

fn refusal_failure(refusal: AlertRefusal) -> Failure {
    match refusal {
        AlertRefusal::NotFiring => Failure::new(api::ErrorCode::WrongState, refusal.to_string()),
        AlertRefusal::SilenceAlreadyOver => Failure::bad_input("until", refusal),
    }
}

/// A firing instance takes precedence over an unknown value.
fn shown_state(instances: &[AlertInstance], reading: Evaluation) -> api::AlertState {
    let any = |is: fn(&Phase) -> bool| instances.iter().any(|instance| is(&instance.phase));
    if any(|phase| matches!(phase, Phase::Firing(_))) {
        api::AlertState::Firing
    } else if reading == Evaluation::Unknown {
        api::AlertState::Unknown
    } else if any(|phase| matches!(phase, Phase::Pending { .. })) {
        api::AlertState::Pending
    } else if any(|phase| matches!(phase, Phase::Resolved { .. })) {
        api::AlertState::Resolved
    } else {
        api::AlertState::Inactive
    }
}

fn firings(state: &AlertState) -> Vec<api::AlertFiring> {
    let firing = |(instance, firing): (&AlertInstance, &pinfold_alerts::Firing)| api::AlertFiring {
        subject: subject(instance.subject.as_ref()),
        since: rfc3339(firing.since),
        level: firing.level.number(),
        notified: firing.notified,
        acknowledged_by: firing.acknowledged.as_ref().map(|acknowledged| acknowledged.by.clone()),
        acknowledged_at: firing.acknowledged.as_ref().map(|acknowledged| rfc3339(acknowledged.at)),
    };
    state.firing().map(firing).collect()
}

fn subject(subject: Option<&pinfold_alerts::AlertSubject>) -> Option<api::AlertSubject> {
    subject.map(|subject| api::AlertSubject {
        sandbox_id: subject.sandbox.clone(),
        event: subject.event.name().to_owned(),
    })
}

fn delivery(row: &Delivery) -> api::AlertDelivery {
    let (state, at) = match row.state {
        DeliveryState::Waiting { until } => (api::AlertDeliveryState::Waiting, until),
        DeliveryState::Delivered { at } => (api::AlertDeliveryState::Delivered, at),
        DeliveryState::GivenUp { at } => (api::AlertDeliveryState::GivenUp, at),
    };
    api::AlertDelivery {
        id: row.new.id.clone(),
        seq: unsigned(row.seq),
        at: rfc3339(row.new.at),
        name: row.new.name.clone(),
        target: row.new.target.clone(),
        state,
        attempts: row.attempts,
        state_at: rfc3339(at),
        last_result: row.last_result.clone(),
    }
}

fn unsigned(seq: i64) -> u64 {
    u64::try_from(seq).unwrap_or(0)
}

fn test_notice(id: &str, now: Timestamp, runbook: &str) -> api::AlertNotice {
    api::AlertNotice {
        delivery_id: id.to_owned(),
        name: "test".to_owned(),
        title: "Test Of Alerts".to_owned(),
        severity: api::AlertSeverity::Info,
        event: api::AlertEvent::Test,
        message: "This is a test notification.".to_owned(),
        value: None,
        threshold: None,
        level: 1,
        affects: Vec::new(),
        runbook: runbook.to_owned(),
        context: None,
        impact: api::AlertImpact::default(),
        at: rfc3339(now),
        since: None,
    }
}
