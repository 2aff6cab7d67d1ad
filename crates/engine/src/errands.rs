//! What this node is doing right now: one task for each piece of work, none for work that nobody waits for.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pinfold_lifecycle::{Effect, Fence, SandboxId};
use tokio::task::JoinHandle;

type Errand = (SandboxId, Fence);

#[derive(Default)]
pub(crate) struct Errands {
    tasks: Mutex<Tasks>,
}

#[derive(Default)]
struct Tasks {
    closed: bool,
    loops: Vec<JoinHandle<()>>,
    running: BTreeMap<Errand, Task>,
}

struct Task {
    handle: JoinHandle<()>,
    /// It has its answer and is feeding it in: what follows from that must not be cut off half-way.
    answering: bool,
}

impl Errands {
    fn lock(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn spawn_loop(&self, work: impl Future<Output = ()> + Send + 'static) {
        let handle = tokio::spawn(work);
        self.lock().loops.push(handle);
    }

    /// Begins a piece of work, unless it is under way or everything has been told to end.
    pub(crate) fn spawn(&self, errand: Errand, work: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.lock();
        if !tasks.closed && !tasks.running.contains_key(&errand) {
            let handle = tokio::spawn(work);
            tasks.running.insert(errand, Task { handle, answering: false });
        }
    }

    /// It has its answer. Says whether that is still wanted: what is given up while it takes a step is not stopped
    /// before the next one, and would write its answer with nobody left to act on it.
    pub(crate) fn may_answer(&self, errand: Errand) -> bool {
        let mut tasks = self.lock();
        let task = tasks.running.get_mut(&errand);
        task.map(|task| task.answering = true).is_some()
    }

    pub(crate) fn done(&self, errand: Errand) {
        self.lock().running.remove(&errand);
    }

    /// Drops the work on this sandbox whose answer nobody waits for any more. Tickets only grow: what was asked for
    /// after the last one that is known is not for whoever looked before to judge.
    pub(crate) fn drop_obsolete(&self, sandbox: SandboxId, last_known: Fence, wanted: &[Effect]) {
        let is_wanted = |ticket: &Fence| wanted.iter().any(|effect| effect.duty.ticket == *ticket);
        let mut tasks = self.lock();
        let own = tasks.running.range((sandbox, Fence(0))..=(sandbox, last_known));
        let obsolete: Vec<_> = own
            .filter(|((_, ticket), task)| !is_wanted(ticket) && !task.answering)
            .map(|(errand, _)| *errand)
            .collect();
        for errand in obsolete {
            if let Some(task) = tasks.running.remove(&errand) {
                task.handle.abort();
            }
        }
    }

    pub(crate) fn concern(&self, sandbox: SandboxId) -> bool {
        self.lock().running.range((sandbox, Fence(0))..=(sandbox, Fence(u64::MAX))).next().is_some()
    }

    pub(crate) fn abort_all(&self) {
        drop(self.abort());
    }

    /// The same, and waits until none of it goes on. What is given up in the middle of a step takes that step, and may
    /// write something with it.
    pub(crate) async fn end_all(&self) {
        for task in self.abort() {
            // Given up, or done.
            let _ = task.await;
        }
    }

    fn abort(&self) -> Vec<JoinHandle<()>> {
        let mut tasks = self.lock();
        tasks.closed = true;
        let mut all = std::mem::take(&mut tasks.loops);
        all.extend(std::mem::take(&mut tasks.running).into_values().map(|task| task.handle));
        all.iter().for_each(JoinHandle::abort);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: SandboxId = SandboxId(1);

    #[tokio::test]
    async fn what_was_given_up_answers_no_more_and_what_answers_is_not_given_up() {
        let errands = Errands::default();
        let [given_up, answering] = [1, 2].map(|ticket| (ONE, Fence(ticket)));
        for errand in [given_up, answering] {
            errands.spawn(errand, std::future::pending());
        }

        assert!(errands.may_answer(answering));
        errands.drop_obsolete(ONE, Fence(2), &[]);

        assert!(!errands.may_answer(given_up));
        assert!(errands.may_answer(answering));
    }

    #[tokio::test]
    async fn what_was_asked_for_after_a_look_is_not_given_up_for_it() {
        let errands = Errands::default();
        for ticket in 1..=3 {
            errands.spawn((ONE, Fence(ticket)), std::future::pending());
        }

        errands.drop_obsolete(ONE, Fence(2), &[]);

        let left: Vec<_> = errands.lock().running.keys().copied().collect();
        assert_eq!(left, [(ONE, Fence(3))]);
    }
}
