//! A progress line on standard error for operations longer than a second; nothing if standard error is not a terminal.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;

const SECOND: Duration = Duration::from_secs(1);

/// Shows what the command waits for until dropped.
pub(crate) struct Progress {
    line: Option<(JoinHandle<()>, Arc<AtomicBool>)>,
}

impl Progress {
    pub(crate) fn of(what: &str) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { line: None };
        }
        let what = what.to_owned();
        let shown = Arc::new(AtomicBool::new(false));
        let shows = shown.clone();
        let line = tokio::spawn(async move {
            for seconds in 1u64.. {
                tokio::time::sleep(SECOND).await;
                shows.store(true, Ordering::Relaxed);
                eprint!("\r{what} … {seconds} s\u{1b}[K");
            }
        });
        Self { line: Some((line, shown)) }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((line, shown)) = self.line.take() {
            line.abort();
            if shown.load(Ordering::Relaxed) {
                eprint!("\r\u{1b}[K");
            }
        }
    }
}
