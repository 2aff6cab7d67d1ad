//! Unit and property tests: each alert fires and resolves, and notifications are neither superfluous nor missing.

mod each;
mod notifications;
mod properties;

use pinfold_lifecycle::Timestamp;

use crate::{
    Alert, AlertChange, AlertInputs, AlertRequest, AlertState, AlertTransition, ChangeKind,
    NotificationPolicy, Rule, Rules, apply_request, step,
};

const NOON: Timestamp = Timestamp(1_000_000_000);
const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

/// One alert over time.
struct AlertRun {
    alert: Alert,
    rules: Rules,
    state: AlertState,
    now: Timestamp,
}

impl AlertRun {
    fn of(alert: Alert) -> Self {
        Self { alert, rules: Rules::default(), state: AlertState::default(), now: NOON }
    }

    fn with(alert: Alert, rule: Rule) -> Self {
        let mut run = Self::of(alert);
        run.rules.set(alert, rule);
        run
    }

    /// Evaluates this many milliseconds later.
    fn evaluate_after(&mut self, later_ms: u64, inputs: &AlertInputs) -> Vec<AlertChange> {
        self.now = self.now.after_ms(later_ms);
        let policy = NotificationPolicy::default();
        let AlertTransition { state, changes: happened } =
            step(self.alert, &self.state, inputs, &self.rules, policy, self.now);
        self.state = state;
        happened
    }

    /// Evaluates every 15 seconds for this long.
    fn evaluate_for(&mut self, for_ms: u64, inputs: &AlertInputs) -> Vec<AlertChange> {
        (0..for_ms / 15_000).flat_map(|_| self.evaluate_after(15_000, inputs)).collect()
    }

    fn request(&mut self, request: AlertRequest) {
        let AlertTransition { state, .. } =
            apply_request(self.alert, &self.state, request, self.now).unwrap();
        self.state = state;
    }
}

fn text(happened: &[AlertChange]) -> Vec<&ChangeKind> {
    happened.iter().filter(|it| it.notifies()).map(|it| &it.kind).collect()
}

fn active(active: u64) -> AlertInputs {
    AlertInputs { active: Some(active), ..AlertInputs::default() }
}

fn stuck(stuck: u64) -> AlertInputs {
    AlertInputs { stuck: Some(stuck), ..AlertInputs::default() }
}
