//! Captures the log in memory.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

#[derive(Clone, Default)]
pub(crate) struct CapturedLog(Arc<Mutex<Vec<u8>>>);

impl CapturedLog {
    /// Installs itself for the whole process.
    pub(crate) fn begin() -> Self {
        let captured = Self::default();
        let writer = captured.clone();
        let log = tracing_subscriber::fmt().with_ansi(false).with_max_level(tracing::Level::INFO);
        log.with_writer(move || writer.clone()).init();
        captured
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        String::from_utf8_lossy(&self.0.lock().unwrap()).lines().map(str::to_owned).collect()
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
