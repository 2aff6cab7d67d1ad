//! What people want of an alert. It can be refused.

use pinfold_lifecycle::Timestamp;

use crate::{Acknowledgement, Alert, AlertState, Happening, Level, Phase, Silence, Stepped, What};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// Somebody sees to it: nobody else is called about this firing.
    Acknowledge {
        by: String,
    },
    /// Nobody is to be called before then.
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
pub enum Refusal {
    #[error("the alert does not fire")]
    NotFiring,
    #[error("a silence that is over before it begins keeps nobody quiet")]
    OverBeforeItBegins,
}

/// Asking twice is no error: the first acknowledgement counts, and the last silence.
pub fn ask(alert: Alert, state: &AlertState, ask: Ask, now: Timestamp) -> Result<Stepped, Refusal> {
    let mut state = state.clone();
    let what = match ask {
        Ask::Acknowledge { by } => acknowledge(&mut state, by, now)?,
        Ask::Silence { until, .. } if until <= now => return Err(Refusal::OverBeforeItBegins),
        Ask::Silence { until, reason, by } => {
            state.silence = Some(Silence { until, reason: reason.clone(), by: by.clone(), at: now });
            Some(What::Silenced { by, until, reason })
        }
        Ask::Unsilence { by } => state.silence.take().map(|_| What::Unsilenced { by }),
    };
    let level = state.firing().map(|(_, firing)| firing.level).max();
    let level: Level = level.unwrap_or(alert.definition().level);
    let since = state.firing().map(|(_, firing)| firing.since).min();
    let happening =
        |what| Happening { at: now, alert, subject: None, what, value: None, since, level, untold: None };
    Ok(Stepped { happened: what.map(happening).into_iter().collect(), state })
}

fn acknowledge(state: &mut AlertState, by: String, now: Timestamp) -> Result<Option<What>, Refusal> {
    let (mut fires, mut is_new) = (false, false);
    for instance in &mut state.instances {
        if let Phase::Firing(firing) = &mut instance.phase {
            fires = true;
            is_new |= firing.acknowledged.is_none();
            firing.acknowledged.get_or_insert_with(|| Acknowledgement { by: by.clone(), at: now });
        }
    }
    if !fires {
        return Err(Refusal::NotFiring);
    }
    Ok(is_new.then_some(What::Acknowledged { by }))
}
