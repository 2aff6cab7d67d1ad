//! Failpoints before and after every call with which the engine changes its store or the host. A crash after a
//! commit is a crash between the commit and its effect; a crash after an effect comes before its result is
//! committed.

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
    /// Within a start: the keeper exists and waits for permission to run.
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
pub(crate) struct Failpoint {
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

impl Failpoint {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let sides = |call| [Side::Before, Side::After].map(|side| Self { side, call });
        Call::ALL.into_iter().flat_map(sides)
    }
}

impl fmt::Display for Failpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.side {
            Side::Before => "before",
            Side::After => "after",
        };
        write!(f, "{side}-{}", self.call.name())
    }
}

impl FromStr for Failpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::all().find(|point| point.to_string() == text).ok_or_else(|| format!("`{text}` is no failpoint"))
    }
}

/// At which hit, counted from one, of which failpoint. None: of any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CrashAt {
    pub(crate) at: Option<Failpoint>,
    pub(crate) nth: u64,
}

impl fmt::Display for CrashAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(point) => write!(f, "{point}:{}", self.nth),
            None => write!(f, "any:{}", self.nth),
        }
    }
}

impl FromStr for CrashAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (at, passing) = text.split_once(':').ok_or_else(|| format!("`{text}` is not POINT:NUMBER"))?;
        let at = if at == "any" { None } else { Some(at.parse()?) };
        let passing = passing.parse().map_err(|_| format!("`{passing}` is no number"))?;
        Ok(Self { at, nth: passing })
    }
}

#[derive(Default)]
pub(crate) struct Failpoints {
    armed: Mutex<Option<CrashAt>>,
}

impl Failpoints {
    pub(crate) fn arm(&self, death: CrashAt) {
        *self.armed.lock().unwrap_or_else(PoisonError::into_inner) = Some(death);
    }

    /// Counts a hit, and kills this process if it is the armed one.
    fn hit(&self, point: Failpoint) {
        let mut armed = self.armed.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(death) = armed.as_mut().filter(|death| death.at.is_none_or(|at| at == point)) else {
            return;
        };
        death.nth = death.nth.saturating_sub(1);
        if death.nth == 0 {
            println!("crashed {point}");
            // SIGKILL, so that no cleanup code runs.
            let _ = kill_process(getpid(), Signal::KILL);
        }
    }

    pub(crate) async fn around<T>(&self, call: Call, work: impl Future<Output = T>) -> T {
        self.hit(Failpoint { side: Side::Before, call });
        let done = work.await;
        self.hit(Failpoint { side: Side::After, call });
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failpoint_names_parse_and_are_unique() {
        let names: std::collections::BTreeSet<String> =
            Failpoint::all().map(|point| point.to_string()).collect();

        assert_eq!(names.len(), 2 * Call::ALL.len());
        for point in Failpoint::all() {
            assert_eq!(point.to_string().parse(), Ok(point));
        }
    }
}
