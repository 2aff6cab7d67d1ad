//! Alerts as the API tells them: how they stand, what happened, who was told, and what people want of them.

use pinfold_alerts::{
    Alert, AlertState, Ask, Happening, Instance, Phase, Reading, Refusal, ask, message, reading,
};
use pinfold_api as api;
use pinfold_lifecycle::Timestamp;
use pinfold_store::{AlertRecord, Alerts, Delivery, DeliveryState, NewDelivery};

use super::words::moment;
use super::{Failure, Service};
use crate::alerts::{self, Seen};

/// Somebody else may be quicker, but not again and again.
const TRIES: usize = 10;
const LONGEST_SILENCE_S: u64 = 30 * 86_400;
const LONGEST_REASON: usize = 500;

impl Service {
    /// All of them, or those in one state.
    pub async fn alerts(&self, state: Option<api::AlertState>) -> Result<api::AlertList, Failure> {
        let seen = self.seen_lately().await;
        let draft = self.draft().await?;
        let all = Alert::ALL.iter().map(|alert| self.view(*alert, &draft.state_of(*alert), &seen));
        Ok(api::AlertList {
            alerts: all.filter(|alert| state.is_none_or(|state| alert.state == state)).collect(),
            impact: alerts::impact(&seen.figures),
            evaluated_at: moment(seen.at),
        })
    }

    /// What fires, the worst first.
    pub(super) async fn active_alerts(&self) -> Result<Vec<api::ActiveAlert>, Failure> {
        let (draft, now) = (self.draft().await?, self.now());
        let mut active = Vec::new();
        for alert in Alert::ALL {
            let state = draft.state_of(*alert);
            let definition = alert.definition();
            active.extend(state.firing().map(|(instance, firing)| api::ActiveAlert {
                name: alert.name().to_owned(),
                title: definition.title.to_owned(),
                severity: alerts::severity(definition.severity),
                subject: subject(instance.subject.as_ref()),
                since: moment(firing.since),
                acknowledged: firing.acknowledged.is_some(),
                silenced: state.is_silent(now),
                runbook: alerts::runbook_of(*alert, &self.rules.alerts),
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
        let of = of.map(named).transpose()?.map(|alert| alert.name().to_owned());
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

    /// Nobody else is called about what fires now.
    pub async fn acknowledge_alert(&self, name: &str, by: &str) -> Result<api::Alert, Failure> {
        self.ask_alert(name, &Ask::Acknowledge { by: by.to_owned() }).await
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
        let silence = Ask::Silence { until, reason: reason.to_owned(), by: by.to_owned() };
        self.ask_alert(name, &silence).await
    }

    /// Ending a silence that there is not changes nothing.
    pub async fn unsilence_alert(&self, name: &str, by: &str) -> Result<api::Alert, Failure> {
        self.ask_alert(name, &Ask::Unsilence { by: by.to_owned() }).await
    }

    /// Sends a message by every way that is configured, and says what came of each.
    pub async fn test_alerts(&self) -> api::AlertTest {
        let now = self.now();
        tracing::info!(alert = "test", "a test of alerts was asked for");
        let logged = api::AlertTestResult {
            target: "log".to_owned(),
            delivered: true,
            message: "it is in the log of this server".to_owned(),
        };
        let targets = self.rules.alerts.targets();
        let sent = targets.iter().map(|target| async {
            let id = format!("dlv_{}", uuid::Uuid::now_v7().simple());
            let notice = test_notice(&id, now, &self.rules.alerts.runbook);
            let notice = serde_json::to_string(&notice).unwrap_or_default();
            let name = "test".to_owned();
            let delivery = NewDelivery { id, at: now, name, target: target.to_string(), notice };
            let sent = self.send(*target, &delivery).await;
            let delivered = sent.is_ok();
            let message = sent.unwrap_or_else(|error| error.to_string());
            api::AlertTestResult { target: target.to_string(), delivered, message }
        });
        let mut results = vec![logged];
        results.extend(futures_util::future::join_all(sent).await);
        api::AlertTest { results }
    }

    /// As of the last look; a process that does not look regularly does so now.
    pub(super) async fn seen_lately(&self) -> Seen {
        match self.alerts.last_seen() {
            Some(seen) => seen,
            None => self.look_for_alerts().await,
        }
    }

    async fn ask_alert(&self, name: &str, asked: &Ask) -> Result<api::Alert, Failure> {
        let alert = named(name)?;
        let seen = self.seen_lately().await;
        for _ in 0..TRIES {
            let mut draft = self.draft().await?;
            let was = draft.state_of(alert);
            let stepped = ask(alert, &was, asked.clone(), self.now()).map_err(refused)?;
            let state = stepped.state.clone();
            draft.put(alert, &was, stepped)?;
            if self.land(draft, &seen.figures).await? {
                return Ok(self.view(alert, &state, &seen));
            }
        }
        Err(Failure::unavailable("the alert changes all the time"))
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
                return Err(Failure::bad_input("until", "say either `until` or `for`"));
            }
        };
        if until.ms_since(now) > LONGEST_SILENCE_S * 1_000 {
            return Err(Failure::bad_input("until", "a silence lasts 30 days at the most"));
        }
        Ok(until)
    }

    fn view(&self, alert: Alert, state: &AlertState, seen: &Seen) -> api::Alert {
        let (config, now) = (&self.rules.alerts, self.now());
        let (definition, rule) = (alert.definition(), config.rules.of(alert));
        let reading = reading(alert, &seen.figures, rule);
        let silence = state.silence.as_ref().filter(|silence| now < silence.until);
        api::Alert {
            name: alert.name().to_owned(),
            title: definition.title.to_owned(),
            meaning: definition.meaning.to_owned(),
            severity: alerts::severity(definition.severity),
            state: shown_state(&state.instances, reading),
            value: reading.value(),
            threshold: rule.threshold,
            sustained_s: rule.sustained_ms / 1_000,
            minimum: rule.minimum,
            cooldown_s: config.habits.cooldown_ms / 1_000,
            level: definition.level.number(),
            affects: definition.affects.iter().map(|objective| objective.name().to_owned()).collect(),
            runbook: alerts::runbook_of(alert, config),
            firings: firings(state),
            silence: silence.map(|silence| api::AlertSilence {
                until: moment(silence.until),
                reason: silence.reason.clone(),
                by: silence.by.clone(),
                at: moment(silence.at),
            }),
        }
    }

    /// None: a newer program wrote it.
    fn entry(&self, record: &AlertRecord) -> Option<api::AlertEntry> {
        let happening: Happening = serde_json::from_str(&record.happened.entry).ok()?;
        let alert = happening.alert;
        Some(api::AlertEntry {
            seq: unsigned(record.seq),
            at: moment(happening.at),
            name: alert.name().to_owned(),
            severity: alerts::severity(alert.definition().severity),
            event: alerts::event(&happening.what),
            message: message(&happening, self.rules.alerts.rules.of(alert)),
            subject: subject(happening.subject.as_ref()),
            value: happening.value,
            level: happening.level.number(),
            told: happening.is_told(),
            untold: happening.untold.map(|why| format!("{why:?}").to_lowercase()),
        })
    }
}

fn named(name: &str) -> Result<Alert, Failure> {
    name.parse().map_err(|error: pinfold_alerts::UnknownAlert| {
        Failure::new(api::ErrorCode::UnknownAlert, error.to_string())
    })
}

fn refused(refusal: Refusal) -> Failure {
    match refusal {
        Refusal::NotFiring => Failure::new(api::ErrorCode::WrongState, refusal.to_string()),
        Refusal::OverBeforeItBegins => Failure::bad_input("until", refusal),
    }
}

/// What fires is never hidden behind what is not known.
fn shown_state(instances: &[Instance], reading: Reading) -> api::AlertState {
    let any = |is: fn(&Phase) -> bool| instances.iter().any(|instance| is(&instance.phase));
    if any(|phase| matches!(phase, Phase::Firing(_))) {
        api::AlertState::Firing
    } else if reading == Reading::Unknown {
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
    let firing = |(instance, firing): (&Instance, &pinfold_alerts::Firing)| api::AlertFiring {
        subject: subject(instance.subject.as_ref()),
        since: moment(firing.since),
        level: firing.level.number(),
        told: firing.told,
        acknowledged_by: firing.acknowledged.as_ref().map(|acknowledged| acknowledged.by.clone()),
        acknowledged_at: firing.acknowledged.as_ref().map(|acknowledged| moment(acknowledged.at)),
    };
    state.firing().map(firing).collect()
}

fn subject(subject: Option<&pinfold_alerts::Subject>) -> Option<api::AlertSubject> {
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
        at: moment(row.new.at),
        name: row.new.name.clone(),
        target: row.new.target.clone(),
        state,
        attempts: row.attempts,
        moment: moment(at),
        last: row.last.clone(),
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
        message: "Somebody asked whether messages arrive: this one did.".to_owned(),
        value: None,
        threshold: None,
        level: 1,
        affects: Vec::new(),
        runbook: runbook.to_owned(),
        context: None,
        impact: api::AlertImpact::default(),
        at: moment(now),
        since: None,
    }
}
