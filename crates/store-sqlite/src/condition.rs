//! What keeps this process from writing, shared by the writer, which finds out by failing, and the monitor, which looks.
//! Health and errors report it.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::errors::TransactionError;
use crate::file_watch::FileWatch;
use crate::lock_holder;
use crate::reserve::Reserve;

/// A writer that waits this long for the lock is reported.
const LONG_WAIT: Duration = Duration::from_secs(2);

/// The condition of an open store.
pub(crate) struct Condition {
    database: PathBuf,
    files: FileWatch,
    pub(crate) reserve: Option<Reserve>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The first damage that a check of the database found. It stays until the store is opened again.
    damage: Option<String>,
    /// Since when the writer waits for the lock of another process.
    waiting_since: Option<Instant>,
    /// The failure of the last write. None: it succeeded.
    last_failure: Option<String>,
}

impl Condition {
    pub(crate) fn new(database: &Path, files: FileWatch, reserve: Option<Reserve>) -> Self {
        Self { database: database.to_owned(), files, reserve, state: Mutex::default() }
    }

    /// Whether a write may begin.
    pub(crate) fn check(&self) -> Result<(), TransactionError> {
        if let Some(damage) = &self.state().damage {
            return Err(TransactionError::Unwritable(damage.clone()));
        }
        self.files.check().map_err(TransactionError::Unwritable)
    }

    /// Whether a commit went into the files that are still there.
    pub(crate) fn check_committed(&self) -> Result<(), TransactionError> {
        self.files.check_identity().map_err(TransactionError::Unwritable)
    }

    /// The error of a write that the disk refused, with what is wrong with the filesystem.
    pub(crate) fn explain(&self, failure: TransactionError) -> TransactionError {
        match failure {
            TransactionError::Unwritable(why) => {
                TransactionError::Unwritable(self.files.probe().err().unwrap_or(why))
            }
            other => other,
        }
    }

    pub(crate) fn is_reserve_in_use(&self) -> bool {
        self.reserve.as_ref().is_some_and(Reserve::is_in_use)
    }

    pub(crate) fn damaged(&self, verdict: &str) {
        let path = self.database.display();
        self.state().damage.get_or_insert_with(|| {
            format!("the database `{path}` is damaged ({verdict}); restore it from a backup")
        });
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "measures how long a lock of another process is waited for"
    )]
    pub(crate) fn begins_to_wait(&self) {
        self.state().waiting_since = Some(Instant::now());
    }

    pub(crate) fn waited(&self) {
        self.state().waiting_since = None;
    }

    pub(crate) fn wrote(&self, failure: Option<&TransactionError>) {
        self.state().last_failure = failure.map(ToString::to_string);
    }

    pub(crate) fn lock_holder(&self) -> Option<String> {
        lock_holder::find(&self.database)
    }

    /// What keeps this process from writing, as one line.
    pub(crate) fn problem(&self) -> Option<String> {
        if let Err(error) = self.check() {
            return Some(error.to_string());
        }
        let (waited, last_failure) = {
            let state = self.state();
            (state.waiting_since.map(|since| since.elapsed()), state.last_failure.clone())
        };
        if let Some(waited) = waited.filter(|waited| *waited >= LONG_WAIT) {
            let holder = self.lock_holder().unwrap_or_else(|| "another process".into());
            return Some(format!("{holder} has held the store's write lock for {} s", waited.as_secs()));
        }
        let reserve = || {
            self.is_reserve_in_use().then(|| {
                "the disk that holds the store is full: no sandboxes are created until some space is freed".into()
            })
        };
        last_failure.or_else(reserve)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
