//! Decides which job starts next. Pure: jobs are only values here.

/// What a job mostly does, which decides how many of its kind run at once and who yields the processor to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// Runs cargo, which locks its directory.
    Build,
    /// Computes and has no timeout that matters: a model, a simulation, an emulated machine with its own clock.
    Compute,
    /// Mostly waits, for real processes and real time.
    Wait,
    /// Must have the machine to itself, for this reason.
    #[cfg_attr(not(test), expect(dead_code, reason = "no stage needs it today; a new one may"))]
    Alone(&'static str),
}

impl Lane {
    fn most_at_once(self) -> usize {
        match self {
            Self::Build | Self::Compute | Self::Alone(_) => 1,
            Self::Wait => 3,
        }
    }

    /// Builds take what the others leave, so that they fill the machine without slowing a test that has a timeout.
    pub(super) fn niceness(self) -> u8 {
        match self {
            Self::Build => 10,
            Self::Compute => 5,
            Self::Wait | Self::Alone(_) => 0,
        }
    }
}

/// Jobs in the order in which they should start.
pub(super) struct Queue<T> {
    waiting: Vec<Entry<T>>,
    running: Vec<Lane>,
    built: Vec<&'static str>,
}

struct Entry<T> {
    lane: Lane,
    /// The build that this job needs.
    after: Option<&'static str>,
    job: T,
}

impl<T> Queue<T> {
    pub(super) fn new() -> Self {
        Self { waiting: Vec::new(), running: Vec::new(), built: Vec::new() }
    }

    pub(super) fn push(&mut self, lane: Lane, after: Option<&'static str>, job: T) {
        self.waiting.push(Entry { lane, after, job });
    }

    /// Takes the next job that may start now.
    pub(super) fn start_next(&mut self) -> Option<(Lane, T)> {
        let is_ready = |entry: &Entry<T>| entry.after.is_none_or(|build| self.built.contains(&build));
        let may_start = |entry: &Entry<T>| is_ready(entry) && self.has_room(entry.lane);
        let index = self.waiting.iter().position(may_start)?;
        let entry = self.waiting.remove(index);
        self.running.push(entry.lane);
        Some((entry.lane, entry.job))
    }

    fn has_room(&self, lane: Lane) -> bool {
        let alone = |lane: &Lane| matches!(lane, Lane::Alone(_));
        if alone(&lane) {
            // Last of all, so that none of the others waits for it with a core idle.
            return self.running.is_empty() && self.waiting.iter().all(|entry| alone(&entry.lane));
        }
        !self.running.iter().any(alone)
            && self.running.iter().filter(|running| **running == lane).count() < lane.most_at_once()
    }

    pub(super) fn end(&mut self, lane: Lane) {
        if let Some(index) = self.running.iter().position(|running| *running == lane) {
            self.running.remove(index);
        }
    }

    /// Releases the jobs that need this build.
    pub(super) fn release(&mut self, build: &'static str) {
        self.built.push(build);
    }

    /// Removes the jobs that need a build that failed.
    pub(super) fn cancel(&mut self, build: &'static str) -> Vec<T> {
        let (cancelled, waiting) =
            std::mem::take(&mut self.waiting).into_iter().partition(|entry| entry.after == Some(build));
        self.waiting = waiting;
        cancelled.into_iter().map(|entry: Entry<T>| entry.job).collect()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn startable(queue: &mut Queue<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| queue.start_next()).map(|(_, job)| job).collect()
    }

    #[test]
    fn jobs_that_wait_run_beside_each_other_and_builds_do_not() {
        let mut queue = Queue::new();
        for job in ["a", "b", "c", "d"] {
            queue.push(Lane::Wait, None, job);
            queue.push(Lane::Build, None, job);
        }

        assert_eq!(startable(&mut queue), ["a", "a", "b", "c"]);
        queue.end(Lane::Build);
        assert_eq!(startable(&mut queue), ["b"]);
        queue.end(Lane::Wait);
        assert_eq!(startable(&mut queue), ["d"]);
    }

    #[test]
    fn a_job_starts_only_after_its_build() {
        let mut queue = Queue::new();
        queue.push(Lane::Wait, Some("tests"), "needs tests");
        queue.push(Lane::Wait, Some("release"), "needs release");

        assert!(startable(&mut queue).is_empty());
        queue.release("tests");
        assert_eq!(startable(&mut queue), ["needs tests"]);
        assert_eq!(queue.cancel("release"), ["needs release"]);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_job_that_must_be_alone_starts_last_and_with_nothing_beside_it() {
        let mut queue = Queue::new();
        queue.push(Lane::Alone("measures"), None, "first alone");
        queue.push(Lane::Alone("measures"), None, "second alone");
        queue.push(Lane::Wait, None, "other");

        assert_eq!(startable(&mut queue), ["other"]);
        queue.end(Lane::Wait);
        assert_eq!(startable(&mut queue), ["first alone"]);
        queue.end(Lane::Alone("measures"));
        assert_eq!(startable(&mut queue), ["second alone"]);
        assert!(!queue.is_idle());
    }
}
