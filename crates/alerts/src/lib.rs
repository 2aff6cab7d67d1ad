//! When to call somebody, and when to leave them alone. Pure: figures and time come in as values, and what is to be
//! told leaves as values. [`Alert`] is the list, [`step`] takes in figures, [`ask`] takes in what people want.

mod alert;
mod ask;
mod figures;
mod happening;
mod list;
mod reading;
mod rule;
mod state;
mod step;
mod table;
mod telling;

#[cfg(test)]
mod tests;

pub use alert::{Alert, Level, Objective, Severity, UnknownAlert};
pub use ask::{Ask, Refusal, ask};
pub use figures::{Event, Figures, Pace, Subject};
pub use happening::{Happening, Untold, What};
pub use list::{Definition, Unit};
pub use reading::{Reading, reading};
pub use rule::{Habits, Rule, Rules};
pub use state::{Acknowledgement, AlertState, Firing, Instance, Phase, Silence};
pub use step::{Stepped, step};
pub use table::table;
pub use telling::{message, shown};
