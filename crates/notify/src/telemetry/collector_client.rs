//! Sends OTLP requests to the collector with a time limit, and logs dropped telemetry at most once a minute.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use hyper::header::{CONTENT_TYPE, HeaderMap, USER_AGENT};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use super::Collector;
use crate::http_client::{HttpClient, HttpSendError};

/// Time limit of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between two log lines about dropped telemetry.
const LOG_EVERY: Duration = Duration::from_secs(60);

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

    fn name(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
        }
    }
}

/// Why the collector did not accept a request, and whether a retry can help.
#[derive(Debug)]
pub(super) struct ExportError {
    pub(super) why: String,
    pub(super) retryable: bool,
}

pub(super) struct CollectorClient {
    signal: Signal,
    address: String,
    headers: HeaderMap,
    http: Option<Arc<HttpClient>>,
    dropped: DropCounter,
}

/// Counts dropped items.
#[derive(Default)]
struct DropCounter {
    total: u64,
    /// Dropped since the last log line.
    unlogged: u64,
    logged_at: Option<Instant>,
    is_dropping: bool,
}

impl CollectorClient {
    pub(super) fn new(signal: Signal, collector: &Collector) -> Self {
        let (address, headers) = (collector.address_for(signal), collector.headers().clone());
        Self { signal, address, headers, http: None, dropped: DropCounter::default() }
    }

    pub(super) async fn send(&mut self, message: Bytes) -> Result<(), ExportError> {
        let http = self.http().await?;
        let mut request = Request::post(&self.address);
        if let Some(headers) = request.headers_mut() {
            headers.clone_from(&self.headers);
        }
        let request = request
            .header(CONTENT_TYPE, "application/x-protobuf")
            .header(USER_AGENT, concat!("pinfold/", env!("CARGO_PKG_VERSION")))
            .body(Full::new(message))
            .map_err(|error| ExportError { why: error.to_string(), retryable: false })?;
        match timeout(REQUEST_TIMEOUT, http.post(request)).await {
            Ok(Ok(_)) => {
                self.record_accepted();
                Ok(())
            }
            Ok(Err(error)) => Err(export_error(&error)),
            Err(_) => {
                let why = format!("no answer within {} s", REQUEST_TIMEOUT.as_secs());
                Err(ExportError { why, retryable: true })
            }
        }
    }

    /// The HTTP client, created on first use on a blocking thread, since it reads the host's root certificates.
    async fn http(&mut self) -> Result<Arc<HttpClient>, ExportError> {
        if let Some(http) = &self.http {
            return Ok(http.clone());
        }
        let made = spawn_blocking(HttpClient::new).await;
        let failed = |why: String| ExportError { why, retryable: true };
        let http = made.map_err(|error| failed(error.to_string()))?;
        let http = http.map_err(|error| failed(error.to_string()))?;
        Ok(self.http.insert(Arc::new(http)).clone())
    }

    /// Records dropped items.
    pub(super) fn record_dropped(&mut self, number: u64, why: &str) {
        let counter = &mut self.dropped;
        counter.total += number;
        counter.unlogged += number;
        counter.is_dropping = true;
        if counter.logged_at.is_some_and(|at| at.elapsed() < LOG_EVERY) {
            return;
        }
        counter.logged_at = Some(Instant::now());
        let (signal, dropped, in_all) =
            (self.signal.name(), std::mem::take(&mut counter.unlogged), counter.total);
        tracing::warn!(
            signal,
            dropped,
            dropped_in_all = in_all,
            why,
            "the collector does not accept telemetry, dropping it"
        );
    }

    fn record_accepted(&mut self) {
        if std::mem::take(&mut self.dropped.is_dropping) {
            let in_all = self.dropped.total;
            tracing::info!(
                signal = self.signal.name(),
                dropped_in_all = in_all,
                "the collector accepts telemetry again"
            );
        }
    }
}

fn export_error(error: &HttpSendError) -> ExportError {
    let retryable = match error {
        HttpSendError::Unreachable(_) => true,
        HttpSendError::Refused { status } => matches!(status, 429 | 502 | 503 | 504),
        HttpSendError::BadAddress(_) | HttpSendError::Tls(_) => false,
    };
    ExportError { why: error.to_string(), retryable }
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
    async fn drops_are_logged_once_a_minute_with_their_number() {
        let log = Log::default();
        let written = log.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || written.clone());
        let _here = tracing::subscriber::set_default(subscriber.finish());
        let collector = Collector::new("http://localhost").unwrap();
        let mut client = CollectorClient::new(Signal::Traces, &collector);

        client.record_accepted();
        assert_eq!(log.take(), "");
        client.record_dropped(3, "it is down");
        let first = log.take();
        assert!(first.contains("dropped=3 dropped_in_all=3 why=\"it is down\""), "{first}");
        for _ in 0..10_000 {
            client.record_dropped(2, "it is down");
        }
        assert_eq!(log.take(), "");
        advance(LOG_EVERY).await;
        client.record_dropped(1, "it is down");
        let next = log.take();
        assert!(next.lines().count() == 1 && next.contains("dropped=20001 dropped_in_all=20004"), "{next}");
        client.record_accepted();
        client.record_accepted();
        let again = log.take();
        assert!(again.lines().count() == 1 && again.contains("accepts telemetry again"), "{again}");
    }
}
