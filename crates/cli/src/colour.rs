//! Colours of states, for people at a terminal. Whoever prints them does so through `anstream`, which leaves them out
//! in pipes and files, and where `NO_COLOR` is set.

use anstyle::{AnsiColor, Style};
use pinfold_api::{AlertSeverity, AlertState, ExecutionState, Finding, Indicator, State};

/// What a state means for whoever looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    Good,
    Moving,
    Bad,
    Plain,
}

impl Mood {
    /// The text as it is shown on a terminal.
    pub(crate) fn paint(self, text: &str) -> String {
        let colour = match self {
            Self::Good => AnsiColor::Green,
            Self::Moving => AnsiColor::Yellow,
            Self::Bad => AnsiColor::Red,
            Self::Plain => return text.to_owned(),
        };
        let style = Style::new().fg_color(Some(colour.into()));
        format!("{style}{text}{style:#}")
    }
}

impl From<State> for Mood {
    fn from(state: State) -> Self {
        match state {
            State::Ready | State::Running => Self::Good,
            State::Unhealthy | State::Unknown | State::Quarantined | State::Failed => Self::Bad,
            State::Provisioning | State::Terminating => Self::Moving,
            State::Completed | State::Terminated => Self::Plain,
        }
    }
}

impl From<ExecutionState> for Mood {
    fn from(state: ExecutionState) -> Self {
        match state {
            ExecutionState::Running => Self::Good,
            ExecutionState::Queued => Self::Moving,
            ExecutionState::Failed | ExecutionState::TimedOut | ExecutionState::Lost => Self::Bad,
            ExecutionState::Exited | ExecutionState::Cancelled => Self::Plain,
        }
    }
}

impl From<Finding> for Mood {
    fn from(found: Finding) -> Self {
        match found {
            Finding::Absent => Self::Good,
            Finding::Present => Self::Bad,
            Finding::Unknown => Self::Moving,
        }
    }
}

impl From<AlertState> for Mood {
    fn from(state: AlertState) -> Self {
        match state {
            AlertState::Firing => Self::Bad,
            AlertState::Pending | AlertState::Unknown => Self::Moving,
            AlertState::Inactive | AlertState::Resolved => Self::Plain,
        }
    }
}

impl From<AlertSeverity> for Mood {
    fn from(severity: AlertSeverity) -> Self {
        match severity {
            AlertSeverity::Info => Self::Plain,
            AlertSeverity::Warning => Self::Moving,
            AlertSeverity::Critical => Self::Bad,
        }
    }
}

impl From<Indicator> for Mood {
    fn from(indicator: Indicator) -> Self {
        match indicator {
            Indicator::Healthy => Self::Good,
            Indicator::Unknown | Indicator::Degraded => Self::Moving,
            Indicator::Critical => Self::Bad,
        }
    }
}
