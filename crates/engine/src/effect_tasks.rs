//! Table of running effects: one task per pending effect, none for obsolete ones.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pinfold_lifecycle::{Effect, Fence, SandboxId};
use tokio::task::JoinHandle;

type EffectKey = (SandboxId, Fence);

#[derive(Default)]
pub(crate) struct EffectTasks {
    tasks: Mutex<Tasks>,
}

#[derive(Default)]
struct Tasks {
    closed: bool,
    loops: Vec<JoinHandle<()>>,
    running: BTreeMap<EffectKey, Task>,
}

struct Task {
    handle: JoinHandle<()>,
    /// The effect has its result and applies it. Aborting now could cut off what follows the commit.
    answering: bool,
}

impl EffectTasks {
    fn lock(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn spawn_loop(&self, work: impl Future<Output = ()> + Send + 'static) {
        let handle = tokio::spawn(work);
        self.lock().loops.push(handle);
    }

    /// Spawns an effect, unless it is already running or the engine is shutting down.
    pub(crate) fn spawn(&self, key: EffectKey, work: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.lock();
        if !tasks.closed && !tasks.running.contains_key(&key) {
            let handle = tokio::spawn(work);
            tasks.running.insert(key, Task { handle, answering: false });
        }
    }

    /// Marks an effect as answering. False: it was dropped. An aborted task runs on to its next await and must
    /// not commit a result that no task would act on.
    pub(crate) fn may_answer(&self, key: EffectKey) -> bool {
        let mut tasks = self.lock();
        let task = tasks.running.get_mut(&key);
        task.map(|task| task.answering = true).is_some()
    }

    pub(crate) fn done(&self, key: EffectKey) {
        self.lock().running.remove(&key);
    }

    /// Aborts the tasks of this sandbox that are no longer pending. Fences only grow: effects newer than
    /// `last_known` were requested after the caller read the row and are left alone.
    pub(crate) fn drop_obsolete(&self, sandbox: SandboxId, last_known: Fence, wanted: &[Effect]) {
        let is_wanted = |fence: &Fence| wanted.iter().any(|effect| effect.pending.fence == *fence);
        let mut tasks = self.lock();
        let own = tasks.running.range((sandbox, Fence(0))..=(sandbox, last_known));
        let obsolete: Vec<_> = own
            .filter(|((_, fence), task)| !is_wanted(fence) && !task.answering)
            .map(|(key, _)| *key)
            .collect();
        for key in obsolete {
            if let Some(task) = tasks.running.remove(&key) {
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

    /// Aborts all tasks and waits for their end. A task aborted in the middle of a step completes that step,
    /// which may write.
    pub(crate) async fn end_all(&self) {
        for task in self.abort() {
            // Aborted or finished.
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
    async fn a_dropped_effect_cannot_answer_and_an_answering_effect_is_not_dropped() {
        let effect_tasks = EffectTasks::default();
        let [given_up, answering] = [1, 2].map(|fence| (ONE, Fence(fence)));
        for key in [given_up, answering] {
            effect_tasks.spawn(key, std::future::pending());
        }

        assert!(effect_tasks.may_answer(answering));
        effect_tasks.drop_obsolete(ONE, Fence(2), &[]);

        assert!(!effect_tasks.may_answer(given_up));
        assert!(effect_tasks.may_answer(answering));
    }

    #[tokio::test]
    async fn effects_requested_after_the_row_was_read_are_not_dropped() {
        let effect_tasks = EffectTasks::default();
        for fence in 1..=3 {
            effect_tasks.spawn((ONE, Fence(fence)), std::future::pending());
        }

        effect_tasks.drop_obsolete(ONE, Fence(2), &[]);

        let left: Vec<_> = effect_tasks.lock().running.keys().copied().collect();
        assert_eq!(left, [(ONE, Fence(3))]);
    }
}
