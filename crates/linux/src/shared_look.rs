//! A look that many ask for at the same time is made once: for all who had asked before it began.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;

pub(crate) struct SharedLook<T> {
    asked: AtomicU64,
    last: Mutex<Option<Look<T>>>,
}

struct Look<T> {
    /// All questions up to this number were asked before it began.
    answers: u64,
    found: T,
}

impl<T> Default for SharedLook<T> {
    fn default() -> Self {
        Self { asked: AtomicU64::new(0), last: Mutex::new(None) }
    }
}

impl<T> SharedLook<T> {
    /// What `read` takes from a look that began after this call. A look that failed is nobody's but that asker's.
    pub(crate) async fn ask<R, E>(
        &self,
        look: impl FnOnce() -> Result<T, E>,
        read: impl FnOnce(&T) -> R,
    ) -> Result<R, E> {
        let own = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut last = self.last.lock().await;
        if let Some(known) = last.as_ref().filter(|known| known.answers >= own) {
            return Ok(read(&known.found));
        }
        let answers = self.asked.load(Ordering::SeqCst);
        let found = look()?;
        let answer = read(&found);
        *last = Some(Look { answers, found });
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn nobody_is_answered_by_a_look_from_before_the_question() {
        let shared = SharedLook::default();

        let first = shared.ask(|| Ok::<_, Infallible>(1), |found| *found).await;
        let second = shared.ask(|| Ok::<_, Infallible>(2), |found| *found).await;

        assert_eq!((first, second), (Ok(1), Ok(2)));
    }

    #[tokio::test]
    async fn all_who_wait_for_a_look_share_the_next_one() {
        let (shared, looks) = (Arc::new(SharedLook::default()), Arc::new(AtomicU64::new(0)));
        let busy = shared.last.lock().await;
        let waiting: Vec<_> = (0..100)
            .map(|_| {
                let (shared, looks) = (shared.clone(), looks.clone());
                tokio::spawn(async move {
                    let look = || Ok::<_, Infallible>(looks.fetch_add(1, Ordering::Relaxed));
                    shared.ask(look, |found| *found).await
                })
            })
            .collect();
        tokio::task::yield_now().await;

        drop(busy);

        for asker in waiting {
            assert_eq!(asker.await.unwrap(), Ok(0));
        }
        assert_eq!(looks.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_look_that_failed_is_made_again() {
        let shared = SharedLook::default();

        let failed = shared.ask(|| Err::<u8, _>("no"), |found| *found).await;
        let again = shared.ask(|| Ok::<_, &str>(7), |found| *found).await;

        assert_eq!((failed, again), (Err("no"), Ok(7)));
    }
}
