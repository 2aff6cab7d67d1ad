//! Single-flight observation: concurrent callers share one observation that began after all of them had asked.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;

pub(crate) struct SingleFlight<T> {
    requests: AtomicU64,
    last: Mutex<Option<Observation<T>>>,
}

struct Observation<T> {
    /// All requests up to this number were made before it began.
    covers: u64,
    found: T,
}

impl<T> Default for SingleFlight<T> {
    fn default() -> Self {
        Self { requests: AtomicU64::new(0), last: Mutex::new(None) }
    }
}

impl<T> SingleFlight<T> {
    /// Reads from an observation that began after this call. A failed observation is returned to its own caller only.
    pub(crate) async fn run<R, E>(
        &self,
        observe: impl FnOnce() -> Result<T, E>,
        read: impl FnOnce(&T) -> R,
    ) -> Result<R, E> {
        let request = self.requests.fetch_add(1, Ordering::SeqCst) + 1;
        let mut last = self.last.lock().await;
        if let Some(known) = last.as_ref().filter(|known| known.covers >= request) {
            return Ok(read(&known.found));
        }
        let covers = self.requests.load(Ordering::SeqCst);
        let found = observe()?;
        let answer = read(&found);
        *last = Some(Observation { covers, found });
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn a_request_is_never_answered_by_an_older_observation() {
        let shared = SingleFlight::default();

        let first = shared.run(|| Ok::<_, Infallible>(1), |found| *found).await;
        let second = shared.run(|| Ok::<_, Infallible>(2), |found| *found).await;

        assert_eq!((first, second), (Ok(1), Ok(2)));
    }

    #[tokio::test]
    async fn concurrent_requests_share_one_observation() {
        let (shared, observations) = (Arc::new(SingleFlight::default()), Arc::new(AtomicU64::new(0)));
        let busy = shared.last.lock().await;
        let waiting: Vec<_> = (0..100)
            .map(|_| {
                let (shared, observations) = (shared.clone(), observations.clone());
                tokio::spawn(async move {
                    let observe = || Ok::<_, Infallible>(observations.fetch_add(1, Ordering::Relaxed));
                    shared.run(observe, |found| *found).await
                })
            })
            .collect();
        tokio::task::yield_now().await;

        drop(busy);

        for caller in waiting {
            assert_eq!(caller.await.unwrap(), Ok(0));
        }
        assert_eq!(observations.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_failed_observation_is_repeated() {
        let shared = SingleFlight::default();

        let failed = shared.run(|| Err::<u8, _>("no"), |found| *found).await;
        let again = shared.run(|| Ok::<_, &str>(7), |found| *found).await;

        assert_eq!((failed, again), (Err("no"), Ok(7)));
    }
}
