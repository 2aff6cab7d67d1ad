//! Alerts: when they fire, whom they notify, and when notifications are suppressed.
//!
//! Pure functions: values and time come in as arguments, and changes leave as values. The server stores the state,
//! sends the notifications and keeps the history.
//!
//! ```text
//!   AlertInputs ──► evaluate() ──► step() ──────────┐
//!   AlertRequest ────────────────► apply_request() ─┴─► AlertState + AlertChanges ─► notifications
//! ```
//!
//! - [`Alert`]: the closed list. [`Definition`] and [`Rule`]: when each fires and whom it concerns.
//! - [`step`]: applies the values of one moment. [`Phase`] has the diagram of states.
//! - [`apply_request`]: acknowledge, silence, unsilence.
//! - [`AlertChange`]: what happened, and why no notification is sent if it is suppressed.

mod alert;
mod change;
mod definitions;
mod evaluation;
mod inputs;
mod messages;
mod request;
mod rule;
mod state;
mod step;
mod table;

#[cfg(test)]
mod tests;

pub use alert::{Alert, EscalationLevel, Objective, Severity, UnknownAlert};
pub use change::{AlertChange, ChangeKind, Suppression};
pub use definitions::{Definition, Unit};
pub use evaluation::{Evaluation, evaluate};
pub use inputs::{AlertInputs, AlertSubject, DurationP95, SandboxEventKind};
pub use messages::{format_value, message};
pub use request::{AlertRefusal, AlertRequest, apply_request};
pub use rule::{NotificationPolicy, Rule, Rules};
pub use state::{Acknowledgement, AlertInstance, AlertState, Firing, Phase, Silence};
pub use step::{AlertTransition, step};
pub use table::table;
