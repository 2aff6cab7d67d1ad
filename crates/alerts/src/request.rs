//! Requests to change an alert: acknowledge, silence, unsilence. A request can be refused.

use pinfold_lifecycle::Timestamp;

use crate::{
    Acknowledgement, Alert, AlertChange, AlertState, AlertTransition, ChangeKind, EscalationLevel, Phase,
    Silence,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AlertRequest {
    /// Stops reminders and escalation of the current firing.
    Acknowledge {
        by: String,
    },
    /// Suppresses notifications until this time.
    Silence {
        until: Timestamp,
        reason: String,
        by: String,
    },
    Unsilence {
        by: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AlertRefusal {
    #[error("the alert does not fire")]
    NotFiring,
    #[error("the end of the silence is in the past")]
    SilenceAlreadyOver,
}

/// Applies a request. Repeating one is safe: the first acknowledgement is kept, and the last silence.
pub fn apply_request(
    alert: Alert,
    state: &AlertState,
    request: AlertRequest,
    now: Timestamp,
) -> Result<AlertTransition, AlertRefusal> {
    let mut state = state.clone();
    let what = match request {
        AlertRequest::Acknowledge { by } => acknowledge(&mut state, by, now)?,
        AlertRequest::Silence { until, .. } if until <= now => return Err(AlertRefusal::SilenceAlreadyOver),
        AlertRequest::Silence { until, reason, by } => {
            state.silence = Some(Silence { until, reason: reason.clone(), by: by.clone(), at: now });
            Some(ChangeKind::Silenced { by, until, reason })
        }
        AlertRequest::Unsilence { by } => state.silence.take().map(|_| ChangeKind::Unsilenced { by }),
    };
    let level = state.firing().map(|(_, firing)| firing.level).max();
    let level: EscalationLevel = level.unwrap_or(alert.definition().level);
    let since = state.firing().map(|(_, firing)| firing.since).min();
    let change = |what| AlertChange {
        at: now,
        alert,
        subject: None,
        kind: what,
        value: None,
        since,
        level,
        suppressed: None,
    };
    Ok(AlertTransition { changes: what.map(change).into_iter().collect(), state })
}

fn acknowledge(
    state: &mut AlertState,
    by: String,
    now: Timestamp,
) -> Result<Option<ChangeKind>, AlertRefusal> {
    let (mut fires, mut is_new) = (false, false);
    for instance in &mut state.instances {
        if let Phase::Firing(firing) = &mut instance.phase {
            fires = true;
            is_new |= firing.acknowledged.is_none();
            firing.acknowledged.get_or_insert_with(|| Acknowledgement { by: by.clone(), at: now });
        }
    }
    if !fires {
        return Err(AlertRefusal::NotFiring);
    }
    Ok(is_new.then_some(ChangeKind::Acknowledged { by }))
}
