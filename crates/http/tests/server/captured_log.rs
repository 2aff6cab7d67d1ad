//! Captures the log of one test. The test must stay on one thread: the subscriber is set per thread.

use std::io::{self, Write};
use std::sync::{Arc, LazyLock, Mutex};

use tracing::Dispatch;
use tracing::subscriber::{DefaultGuard, set_default};

/// A second subscriber. With a single one, `tracing` caches per call site whether the first thread that reaches it wants
/// the line, so a test without a subscriber would disable the line for the test that captures it.
static SECOND_SUBSCRIBER: LazyLock<Dispatch> =
    LazyLock::new(|| tracing_subscriber::fmt().with_writer(io::sink).finish().into());

#[derive(Clone, Default)]
pub(crate) struct CapturedLog(Arc<Mutex<Vec<u8>>>);

impl CapturedLog {
    /// Captures until the guard is dropped.
    pub(crate) fn start() -> (Self, DefaultGuard) {
        LazyLock::force(&SECOND_SUBSCRIBER);
        let captured = Self::default();
        let writer = captured.clone();
        let log = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
        (captured, set_default(log.finish()))
    }

    /// The captured lines that contain `text`.
    pub(crate) fn lines(&self, text: &str) -> Vec<String> {
        let captured = self.0.lock().unwrap();
        String::from_utf8_lossy(&captured)
            .lines()
            .filter(|line| line.contains(text))
            .map(str::to_owned)
            .collect()
    }
}

impl Write for CapturedLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
