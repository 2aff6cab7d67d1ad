//! What the log tells while one test runs. The test must stay on one thread, since others have no log or their own.

use std::io::{self, Write};
use std::sync::{Arc, LazyLock, Mutex};

use tracing::Dispatch;
use tracing::subscriber::{DefaultGuard, set_default};

/// While there is one log alone, `tracing` asks the log of whichever thread comes to a line first whether anybody wants
/// that line, and keeps the answer: a test without a log would switch it off for the one that has it.
static ANOTHER: LazyLock<Dispatch> =
    LazyLock::new(|| tracing_subscriber::fmt().with_writer(io::sink).finish().into());

#[derive(Clone, Default)]
pub(crate) struct Told(Arc<Mutex<Vec<u8>>>);

impl Told {
    /// For as long as the guard is held.
    pub(crate) fn begin() -> (Self, DefaultGuard) {
        LazyLock::force(&ANOTHER);
        let told = Self::default();
        let writer = told.clone();
        let log = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
        (told, set_default(log.finish()))
    }

    /// The lines in which this is said.
    pub(crate) fn lines(&self, said: &str) -> Vec<String> {
        let told = self.0.lock().unwrap();
        String::from_utf8_lossy(&told).lines().filter(|line| line.contains(said)).map(str::to_owned).collect()
    }
}

impl Write for Told {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
