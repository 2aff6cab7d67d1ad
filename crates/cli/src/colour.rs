//! Terminal colours of states. Print them through `anstream`, which strips them in pipes and files, and where
//! `NO_COLOR` is set.

use anstyle::{AnsiColor, Style};
use pinfold_api::{AlertSeverity, AlertState, ExecutionState, Finding, Indicator, State};

/// How a state is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatusColour {
    Good,
    Changing,
    Bad,
    Plain,
}

impl StatusColour {
    /// Adds the colour's escape sequences.
    pub(crate) fn paint(self, text: &str) -> String {
        let colour = match self {
            Self::Good => AnsiColor::Green,
            Self::Changing => AnsiColor::Yellow,
            Self::Bad => AnsiColor::Red,
            Self::Plain => return text.to_owned(),
        };
        let style = Style::new().fg_color(Some(colour.into()));
        format!("{style}{text}{style:#}")
    }
}

impl From<State> for StatusColour {
    fn from(state: State) -> Self {
        match state {
            State::Ready | State::Running => Self::Good,
            State::Unhealthy | State::Unknown | State::Quarantined | State::Failed => Self::Bad,
            State::Provisioning | State::Terminating => Self::Changing,
            State::Completed | State::Terminated => Self::Plain,
        }
    }
}

impl From<ExecutionState> for StatusColour {
    fn from(state: ExecutionState) -> Self {
        match state {
            ExecutionState::Running => Self::Good,
            ExecutionState::Queued | ExecutionState::Collecting => Self::Changing,
            ExecutionState::Failed | ExecutionState::TimedOut | ExecutionState::Lost => Self::Bad,
            ExecutionState::Exited | ExecutionState::Cancelled => Self::Plain,
        }
    }
}

impl From<Finding> for StatusColour {
    fn from(found: Finding) -> Self {
        match found {
            Finding::Absent => Self::Good,
            Finding::Present => Self::Bad,
            Finding::Unknown => Self::Changing,
        }
    }
}

impl From<AlertState> for StatusColour {
    fn from(state: AlertState) -> Self {
        match state {
            AlertState::Firing => Self::Bad,
            AlertState::Pending | AlertState::Unknown => Self::Changing,
            AlertState::Inactive | AlertState::Resolved => Self::Plain,
        }
    }
}

impl From<AlertSeverity> for StatusColour {
    fn from(severity: AlertSeverity) -> Self {
        match severity {
            AlertSeverity::Info => Self::Plain,
            AlertSeverity::Warning => Self::Changing,
            AlertSeverity::Critical => Self::Bad,
        }
    }
}

impl From<Indicator> for StatusColour {
    fn from(indicator: Indicator) -> Self {
        match indicator {
            Indicator::Healthy => Self::Good,
            Indicator::Unknown | Indicator::Degraded => Self::Changing,
            Indicator::Critical => Self::Bad,
        }
    }
}
