//! Looks after an open store in the background: its free disk space every second, and its pages some seconds after the
//! start and then every hour. A damaged page that no request reads would otherwise be found when it is too late for the
//! backup.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::InterruptHandle;

use crate::condition::Condition;
use crate::connect::{self, LockTimeout};

const INTERVAL: Duration = Duration::from_secs(1);
/// Commands that end sooner do not check the pages.
const FIRST_CHECK: Duration = Duration::from_secs(3);
const CHECK_EVERY: Duration = Duration::from_secs(3_600);

/// The thread ends on drop.
pub(crate) struct Monitor {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    closing: bool,
    /// Interrupts the check that runs.
    running_check: Option<InterruptHandle>,
}

impl Monitor {
    pub(crate) fn start(database: PathBuf, condition: Arc<Condition>) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let own = shared.clone();
        let thread = thread::Builder::new()
            .name("pinfold-store-watch".into())
            .spawn(move || own.run(&database, &condition))?;
        Ok(Self { shared, thread: Some(thread) })
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        {
            let mut state = self.shared.state();
            state.closing = true;
            if let Some(check) = &state.running_check {
                check.interrupt();
            }
        }
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // It does not panic; if it did, the store is closed all the same.
            let _ = thread.join();
        }
    }
}

impl Shared {
    #[expect(clippy::disallowed_methods, reason = "a background thread keeps its own schedule")]
    fn run(&self, database: &std::path::Path, condition: &Condition) {
        let mut next_check = Instant::now() + FIRST_CHECK;
        while self.sleep() {
            if let Some(reserve) = &condition.reserve {
                // The disk may be full or read-only, which writes report.
                let _ = reserve.adjust();
            }
            if Instant::now() >= next_check {
                if let Ok(Some(verdict)) = self.check_pages(database) {
                    condition.damaged(&verdict);
                }
                next_check = Instant::now() + CHECK_EVERY;
            }
        }
    }

    /// Returns whether to go on.
    fn sleep(&self) -> bool {
        let state = self.state();
        let (state, _) = self
            .changed
            .wait_timeout_while(state, INTERVAL, |state| !state.closing)
            .unwrap_or_else(PoisonError::into_inner);
        !state.closing
    }

    /// What is wrong with the pages of the database. None: nothing.
    fn check_pages(&self, database: &std::path::Path) -> rusqlite::Result<Option<String>> {
        let connection = connect::for_reading(database, LockTimeout(0))?;
        {
            let mut state = self.state();
            if state.closing {
                return Ok(None);
            }
            state.running_check = Some(connection.get_interrupt_handle());
        }
        let verdict = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
        self.state().running_check = None;
        match verdict {
            Ok(verdict) => Ok((verdict != "ok").then(|| verdict.replace('\n', " "))),
            Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseCorrupt) => {
                Ok(Some(error.to_string()))
            }
            Err(error) => Err(error),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
