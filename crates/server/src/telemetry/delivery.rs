//! One message to the collector, bounded in time, and what is said in the log where it is not taken: how much was
//! dropped and why, once in a minute.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use hyper::header::{CONTENT_TYPE, HeaderMap, USER_AGENT};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use super::Collector;
use crate::alerts::post::{Post, PostError};

/// How long the collector may take over one message.
const ANSWER: Duration = Duration::from_secs(5);
/// Between two lines of the log about the same.
const SAY_EVERY: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    Traces,
    Metrics,
}

impl Signal {
    pub(super) const ALL: [Self; 2] = [Self::Traces, Self::Metrics];

    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Traces => "/v1/traces",
            Self::Metrics => "/v1/metrics",
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
        }
    }
}

/// Why a message was not taken, and whether it may be later.
#[derive(Debug)]
pub(super) struct NotTaken {
    pub(super) why: String,
    pub(super) may_be_later: bool,
}

pub(super) struct Delivery {
    signal: Signal,
    address: String,
    headers: HeaderMap,
    post: Option<Arc<Post>>,
    losses: Losses,
}

/// What was dropped.
#[derive(Default)]
struct Losses {
    in_all: u64,
    /// Since the last line.
    unsaid: u64,
    said_at: Option<Instant>,
    goes_on: bool,
}

impl Delivery {
    pub(super) fn of(signal: Signal, collector: &Collector) -> Self {
        let (address, headers) = (collector.address_for(signal), collector.headers().clone());
        Self { signal, address, headers, post: None, losses: Losses::default() }
    }

    pub(super) async fn deliver(&mut self, message: Bytes) -> Result<(), NotTaken> {
        let post = self.post().await?;
        let mut request = Request::post(&self.address);
        if let Some(headers) = request.headers_mut() {
            headers.clone_from(&self.headers);
        }
        let request = request
            .header(CONTENT_TYPE, "application/x-protobuf")
            .header(USER_AGENT, concat!("pinfold/", env!("CARGO_PKG_VERSION")))
            .body(Full::new(message))
            .map_err(|error| NotTaken { why: error.to_string(), may_be_later: false })?;
        match timeout(ANSWER, post.post(request)).await {
            Ok(Ok(_)) => {
                self.taken();
                Ok(())
            }
            Ok(Err(error)) => Err(not_taken(&error)),
            Err(_) => {
                let why = format!("it did not answer within {} s", ANSWER.as_secs());
                Err(NotTaken { why, may_be_later: true })
            }
        }
    }

    /// Made when it is first needed, beside everybody else: it reads the authorities of this host.
    async fn post(&mut self) -> Result<Arc<Post>, NotTaken> {
        if let Some(post) = &self.post {
            return Ok(post.clone());
        }
        let made = spawn_blocking(Post::new).await;
        let failed = |why: String| NotTaken { why, may_be_later: true };
        let post = made.map_err(|error| failed(error.to_string()))?;
        let post = post.map_err(|error| failed(error.to_string()))?;
        Ok(self.post.insert(Arc::new(post)).clone())
    }

    /// So many were dropped.
    pub(super) fn lost(&mut self, number: u64, why: &str) {
        let losses = &mut self.losses;
        losses.in_all += number;
        losses.unsaid += number;
        losses.goes_on = true;
        if losses.said_at.is_some_and(|at| at.elapsed() < SAY_EVERY) {
            return;
        }
        losses.said_at = Some(Instant::now());
        let (signal, dropped, in_all) =
            (self.signal.word(), std::mem::take(&mut losses.unsaid), losses.in_all);
        tracing::warn!(
            signal,
            dropped,
            dropped_in_all = in_all,
            why,
            "the collector does not take telemetry"
        );
    }

    fn taken(&mut self) {
        if std::mem::take(&mut self.losses.goes_on) {
            let in_all = self.losses.in_all;
            tracing::info!(
                signal = self.signal.word(),
                dropped_in_all = in_all,
                "the collector takes telemetry again"
            );
        }
    }
}

fn not_taken(error: &PostError) -> NotTaken {
    let may_be_later = match error {
        PostError::Unreachable(_) => true,
        PostError::Refused { status } => matches!(status, 429 | 502 | 503 | 504),
        PostError::BadAddress | PostError::Tls(_) => false,
    };
    NotTaken { why: error.to_string(), may_be_later }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Mutex, MutexGuard};

    use tokio::time::advance;

    use super::*;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Log {
        fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
            self.0.lock().unwrap()
        }

        fn take(&self) -> String {
            String::from_utf8(std::mem::take(&mut *self.lock())).unwrap()
        }
    }

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_dropped_is_told_once_in_a_minute_with_how_much_it_was() {
        let log = Log::default();
        let written = log.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || written.clone());
        let _here = tracing::subscriber::set_default(subscriber.finish());
        let collector = Collector::at("http://localhost").unwrap();
        let mut delivery = Delivery::of(Signal::Traces, &collector);

        delivery.taken();
        assert_eq!(log.take(), "");
        delivery.lost(3, "it is down");
        let first = log.take();
        assert!(first.contains("dropped=3 dropped_in_all=3 why=\"it is down\""), "{first}");
        for _ in 0..10_000 {
            delivery.lost(2, "it is down");
        }
        assert_eq!(log.take(), "");
        advance(SAY_EVERY).await;
        delivery.lost(1, "it is down");
        let next = log.take();
        assert!(next.lines().count() == 1 && next.contains("dropped=20001 dropped_in_all=20004"), "{next}");
        delivery.taken();
        delivery.taken();
        let again = log.take();
        assert!(again.lines().count() == 1 && again.contains("takes telemetry again"), "{again}");
    }
}
