//! Named points: before and after every call with which the engine changes its store or the world. To die after a
//! commit is to die between the commit and its effect; to die after an effect is to die before it is written down.

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use rustix::process::{Signal, getpid, kill_process};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Call {
    Create,
    Fill,
    Claim,
    Commit,
    Leave,
    Discover,
    Start,
    /// Within a start: the keeper is born, and waits for the word to go.
    Permit,
    Observe,
    Probe,
    Extend,
    Exec,
    Wait,
    Kill,
    Stop,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Before,
    After,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Point {
    pub(crate) side: Side,
    pub(crate) call: Call,
}

impl Call {
    pub(crate) const ALL: [Self; 15] = [
        Self::Create,
        Self::Fill,
        Self::Claim,
        Self::Commit,
        Self::Leave,
        Self::Discover,
        Self::Start,
        Self::Permit,
        Self::Observe,
        Self::Probe,
        Self::Extend,
        Self::Exec,
        Self::Wait,
        Self::Kill,
        Self::Stop,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Fill => "fill",
            Self::Claim => "claim",
            Self::Commit => "commit",
            Self::Leave => "leave",
            Self::Discover => "discover",
            Self::Start => "start",
            Self::Permit => "permit",
            Self::Observe => "observe",
            Self::Probe => "probe",
            Self::Extend => "extend",
            Self::Exec => "exec",
            Self::Wait => "wait",
            Self::Kill => "kill",
            Self::Stop => "stop",
        }
    }
}

impl Point {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let sides = |call| [Side::Before, Side::After].map(|side| Self { side, call });
        Call::ALL.into_iter().flat_map(sides)
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.side {
            Side::Before => "before",
            Side::After => "after",
        };
        write!(f, "{side}-{}", self.call.name())
    }
}

impl FromStr for Point {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::all().find(|point| point.to_string() == text).ok_or_else(|| format!("`{text}` is no point"))
    }
}

/// At which passing, counted from one, and of which point. None: of any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Death {
    pub(crate) at: Option<Point>,
    pub(crate) passing: u64,
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(point) => write!(f, "{point}:{}", self.passing),
            None => write!(f, "any:{}", self.passing),
        }
    }
}

impl FromStr for Death {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (at, passing) = text.split_once(':').ok_or_else(|| format!("`{text}` is not POINT:NUMBER"))?;
        let at = if at == "any" { None } else { Some(at.parse()?) };
        let passing = passing.parse().map_err(|_| format!("`{passing}` is no number"))?;
        Ok(Self { at, passing })
    }
}

#[derive(Default)]
pub(crate) struct Gates {
    armed: Mutex<Option<Death>>,
}

impl Gates {
    pub(crate) fn arm(&self, death: Death) {
        *self.armed.lock().unwrap_or_else(PoisonError::into_inner) = Some(death);
    }

    /// Where it is the one that was named, this is the last thing that the process does.
    fn pass(&self, point: Point) {
        let mut armed = self.armed.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(death) = armed.as_mut().filter(|death| death.at.is_none_or(|at| at == point)) else {
            return;
        };
        death.passing = death.passing.saturating_sub(1);
        if death.passing == 0 {
            println!("died {point}");
            // As from outside: nobody gets to tidy up.
            let _ = kill_process(getpid(), Signal::KILL);
        }
    }

    pub(crate) async fn around<T>(&self, call: Call, work: impl Future<Output = T>) -> T {
        self.pass(Point { side: Side::Before, call });
        let done = work.await;
        self.pass(Point { side: Side::After, call });
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_is_found_by_its_name_and_no_two_have_the_same() {
        let names: std::collections::BTreeSet<String> = Point::all().map(|point| point.to_string()).collect();

        assert_eq!(names.len(), 2 * Call::ALL.len());
        for point in Point::all() {
            assert_eq!(point.to_string().parse(), Ok(point));
        }
    }
}
