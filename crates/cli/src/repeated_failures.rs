//! Keeps the log readable while the store cannot be used: every loop and every effect then fails again and again for the
//! same cause, which is logged once a minute.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Filter};

/// The same cause is logged at most once in this time.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// Parts of the texts of errors that concern the whole store, not one request.
const STORE_WIDE: [&str; 3] =
    ["the store cannot be written", "the disk that holds the store is full", "held the store's write lock"];

/// A filter that drops events whose cause was logged less than a minute ago.
#[derive(Default)]
pub(crate) struct RepeatedFailures {
    logged: Mutex<HashMap<String, Instant>>,
}

impl RepeatedFailures {
    fn is_new(&self, cause: &str, now: Instant) -> bool {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        logged.retain(|_, at| now.duration_since(*at) < LOG_EVERY);
        if logged.contains_key(cause) {
            return false;
        }
        logged.insert(cause.to_owned(), now);
        true
    }
}

impl<S: Subscriber> Filter<S> for RepeatedFailures {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    #[expect(clippy::disallowed_methods, reason = "the log keeps its own time")]
    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let mut cause = Cause::default();
        event.record(&mut cause);
        cause.0.is_none_or(|cause| self.is_new(&cause, Instant::now()))
    }
}

/// The text of the event's error, if it concerns the whole store.
#[derive(Default)]
struct Cause(Option<String>);

impl Cause {
    fn set(&mut self, field: &Field, text: String) {
        if matches!(field.name(), "error" | "why") && STORE_WIDE.iter().any(|part| text.contains(part)) {
            self.0 = Some(text);
        }
    }
}

impl Visit for Cause {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value.to_owned());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.set(field, value.to_string());
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use pinfold_store::StoreError;
    use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn failures_of_the_store_are_logged_once_per_cause() {
        let written = Written::default();
        let writer = written.clone();
        let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(move || writer.clone());
        let log = tracing_subscriber::registry().with(layer.with_filter(RepeatedFailures::default()));
        let errors = [
            StoreError::Unwritable { why: "read-only".into() },
            StoreError::DiskFull { source: "full".into() },
            StoreError::Busy { holder: Some("process 7".into()), source: "locked".into() },
        ];

        tracing::subscriber::with_default(log, || {
            for number in 0..100 {
                for error in &errors {
                    tracing::warn!(number, error = error as &dyn Error, "heartbeat failed, retrying");
                    tracing::warn!(%error, "deadline loop failed, retrying");
                }
                tracing::warn!(error = "another cause", "kept");
            }
        });

        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.matches("retrying").count(), errors.len(), "{text}");
        assert_eq!(text.matches("kept").count(), 100);
    }
}
