//! `/proc/PID/stat`: name, state, parent, session, CPU time and start time of a process or thread.

use std::fs;
use std::io;
use std::path::Path;

/// The fields of `/proc/PID/stat` that we use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Its `comm`, which the process sets itself. Invalid UTF-8 is replaced.
    pub name: String,
    pub state: ProcessState,
    pub parent: i32,
    /// Pid of the session leader. Zero: it is outside this pid namespace.
    pub session: i32,
    /// CPU time of all its threads, in clock ticks.
    pub cpu_ticks: u64,
    /// CPU time of its reaped children, in clock ticks.
    pub reaped_cpu_ticks: u64,
    /// In clock ticks since boot.
    pub start_ticks: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProcessState {
    Running,
    Sleeping,
    /// Uninterruptible sleep: no signal reaches it.
    Uninterruptible,
    /// Stopped by a signal or a debugger.
    Stopped,
    /// Exited and not yet reaped.
    Zombie,
    Other,
}

/// USER_HZ: fixed in the interface to programs, whatever the kernel's internal tick.
const TICKS_PER_SECOND: u64 = 100;

/// Numbers of the fields as in `proc_pid_stat(5)`, less 3: those after the name are counted from the state on.
const SESSION: usize = 6 - 3;
const UTIME: usize = 14 - 3;
const START: usize = 22 - 3;

impl Stat {
    /// None: there is no such process.
    pub fn of(pid: i32) -> io::Result<Option<Self>> {
        Self::read_in(Path::new(&format!("/proc/{pid}")))
    }

    /// Reads `stat` in the directory of a process or thread. None: it has exited and was reaped.
    pub fn read_in(directory: &Path) -> io::Result<Option<Self>> {
        match fs::read(directory.join("stat")) {
            Ok(line) => Self::parse(&line).map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            // It exited between open and read.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The name is taken up to the last parenthesis: it may contain anything, also text that looks like the rest.
    /// None: the line is cut off or malformed.
    #[must_use]
    pub fn parse(line: &[u8]) -> Option<Self> {
        let open = line.iter().position(|byte| *byte == b'(')?;
        let close = line.iter().rposition(|byte| *byte == b')')?;
        let name = String::from_utf8_lossy(line.get(open + 1..close)?).into_owned();
        let fields: Vec<&str> = str::from_utf8(&line[close + 1..]).ok()?.split_ascii_whitespace().collect();
        // The start time is followed by more fields, so it is complete.
        if fields.len() <= START + 1 {
            return None;
        }
        let ticks = |field: usize| fields[field].parse::<u64>().ok();
        Some(Self {
            name,
            state: ProcessState::of(fields[0]),
            parent: fields[1].parse().ok()?,
            session: fields[SESSION].parse().ok()?,
            cpu_ticks: ticks(UTIME)?.checked_add(ticks(UTIME + 1)?)?,
            reaped_cpu_ticks: ticks(UTIME + 2)?.checked_add(ticks(UTIME + 3)?)?,
            start_ticks: ticks(START)?,
        })
    }

    /// A zombie has exited, though its pid is still taken.
    #[must_use]
    pub fn has_exited(&self) -> bool {
        self.state == ProcessState::Zombie
    }

    /// CPU time of its threads.
    #[must_use]
    pub fn cpu_ms(&self) -> u64 {
        self.cpu_ticks.saturating_mul(1_000) / TICKS_PER_SECOND
    }

    /// CPU time of its threads and reaped children.
    #[must_use]
    pub fn cpu_ms_with_reaped(&self) -> u64 {
        self.cpu_ticks.saturating_add(self.reaped_cpu_ticks).saturating_mul(1_000) / TICKS_PER_SECOND
    }
}

impl ProcessState {
    fn of(letter: &str) -> Self {
        match letter {
            "R" => Self::Running,
            "S" | "I" => Self::Sleeping,
            "D" => Self::Uninterruptible,
            "T" | "t" => Self::Stopped,
            "Z" | "X" => Self::Zombie,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

    use super::*;

    /// What follows the name of a process: 12 is its parent, 69 its session, 4711 its start.
    const REST: &str = "S 12 70 69 34816 70 4194304 900 800 7 6 30 20 10 5 20 0 1 0 4711 9000000 300 18446744073709551615 1 1";

    fn with_name(name: &[u8]) -> Vec<u8> {
        [b"71 (", name, b") ", REST.as_bytes(), b"\n"].concat()
    }

    #[test]
    fn every_field_is_parsed() {
        let stat = Stat::parse(&with_name(b"sh")).unwrap();

        let expected = Stat {
            name: "sh".to_owned(),
            state: ProcessState::Sleeping,
            parent: 12,
            session: 69,
            cpu_ticks: 50,
            reaped_cpu_ticks: 15,
            start_ticks: 4_711,
        };
        assert_eq!(stat, expected);
        assert_eq!((stat.cpu_ms(), stat.cpu_ms_with_reaped()), (500, 650));
    }

    #[test]
    fn a_session_leader_outside_the_namespace_is_zero() {
        let stat = Stat::parse(text_with("S 12 70 69", "S 0 0 0").as_bytes()).unwrap();

        assert_eq!((stat.parent, stat.session), (0, 0));
    }

    #[test]
    fn a_process_name_cannot_fake_the_fields_after_it() {
        let hostile: [&[u8]; 6] = [b"a b", b"(", b")", b"x) Z 1 (y", b") R 1 1 1", b"a\n) Z 2"];
        for name in hostile {
            let stat = Stat::parse(&with_name(name)).unwrap();

            assert_eq!(stat.name.as_bytes(), name);
            assert_eq!((stat.state, stat.parent, stat.start_ticks), (ProcessState::Sleeping, 12, 4_711));
        }
        assert_eq!(Stat::parse(&with_name(b"\xff")).unwrap().name, "\u{fffd}");
        assert_eq!(Stat::parse(&with_name(b"")).unwrap().name, "");
    }

    #[test]
    fn a_line_cut_off_before_the_end_of_the_start_time_is_refused() {
        let whole = with_name(b"a (b) c");
        let text = String::from_utf8(whole.clone()).unwrap();
        let end_of_start = text.find("4711").unwrap() + "4711".len();

        for length in 0..=end_of_start {
            assert_eq!(Stat::parse(&whole[..length]), None, "{}", &text[..length]);
        }
        assert!(Stat::parse(&whole[..end_of_start + 2]).is_some());
    }

    #[test]
    fn fields_that_are_no_numbers_are_refused() {
        assert_eq!(Stat::parse(b") 71 ("), None);
        assert_eq!(Stat::parse(text_with("4711", "soon").as_bytes()), None);
        assert_eq!(Stat::parse(text_with("S 12", "S x").as_bytes()), None);
    }

    fn text_with(old: &str, new: &str) -> String {
        format!("71 (sh) {REST}").replace(old, new)
    }

    #[test]
    fn a_missing_process_is_none_and_a_malformed_line_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        assert!(matches!(Stat::read_in(directory.path()), Ok(None)));

        fs::write(directory.path().join("stat"), "71 (half").unwrap();

        let error = Stat::read_in(directory.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn this_process_is_found_with_its_session() {
        let pid = i32::try_from(std::process::id()).unwrap();

        let stat = Stat::of(pid).unwrap().unwrap();

        assert!(!stat.has_exited() && stat.start_ticks > 0 && stat.session >= 0, "{stat:?}");
        assert_eq!(Stat::of(i32::MAX).unwrap(), None);
    }

    #[test]
    fn a_zombie_has_exited_and_has_no_start_time() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = Pid::from_child(&child);
        // Wait for its exit without reaping it (waitid).
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        let pid = pid.as_raw_pid();

        assert!(Stat::of(pid).unwrap().is_some_and(|stat| stat.has_exited()));
        assert_eq!(crate::start_time(pid).unwrap(), None);

        child.wait().unwrap();
        assert_eq!(Stat::of(pid).unwrap(), None);
    }
}
