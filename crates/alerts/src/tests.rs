//! Examples and properties: each alert fires and ends, nobody is called in vain, and nobody is left uncalled.

mod each;
mod habits;
mod properties;

use pinfold_lifecycle::Timestamp;

use crate::{Alert, AlertState, Ask, Figures, Habits, Happening, Rule, Rules, Stepped, What, ask, step};

const NOON: Timestamp = Timestamp(1_000_000_000);
const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

/// One alert, as time goes by.
struct Course {
    alert: Alert,
    rules: Rules,
    state: AlertState,
    now: Timestamp,
}

impl Course {
    fn of(alert: Alert) -> Self {
        Self { alert, rules: Rules::default(), state: AlertState::default(), now: NOON }
    }

    fn with(alert: Alert, rule: Rule) -> Self {
        let mut course = Self::of(alert);
        course.rules.put(alert, rule);
        course
    }

    /// Looks so many milliseconds later.
    fn look(&mut self, later_ms: u64, figures: &Figures) -> Vec<Happening> {
        self.now = self.now.after_ms(later_ms);
        let habits = Habits::default();
        let Stepped { state, happened } =
            step(self.alert, &self.state, figures, &self.rules, habits, self.now);
        self.state = state;
        happened
    }

    /// Looks every quarter of a minute, for so long.
    fn look_on(&mut self, for_ms: u64, figures: &Figures) -> Vec<Happening> {
        (0..for_ms / 15_000).flat_map(|_| self.look(15_000, figures)).collect()
    }

    fn ask(&mut self, wish: Ask) {
        let Stepped { state, .. } = ask(self.alert, &self.state, wish, self.now).unwrap();
        self.state = state;
    }
}

fn told(happened: &[Happening]) -> Vec<&What> {
    happened.iter().filter(|it| it.is_told()).map(|it| &it.what).collect()
}

fn active(active: u64) -> Figures {
    Figures { active: Some(active), ..Figures::default() }
}

fn stuck(stuck: u64) -> Figures {
    Figures { stuck: Some(stuck), ..Figures::default() }
}
