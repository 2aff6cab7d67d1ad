//! Records the steps in the life of one sandbox.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pinfold_bench_report::{Measurements, milliseconds, now};

#[derive(Default)]
pub(crate) struct Timeline {
    spans: Mutex<Vec<Span>>,
}

#[derive(Clone)]
pub(crate) struct Span {
    what: String,
    begun: Instant,
    ended: Instant,
}

impl Timeline {
    fn lock(&self) -> MutexGuard<'_, Vec<Span>> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a step that began at `begun` and ends now.
    pub(crate) fn record(&self, what: impl Into<String>, begun: Instant) {
        let span = Span { what: what.into(), begun, ended: now() };
        self.lock().push(span);
    }

    pub(crate) async fn time<T>(&self, what: impl Into<String>, work: impl Future<Output = T>) -> T {
        let begun = now();
        let done = work.await;
        self.record(what, begun);
        done
    }

    pub(crate) fn take(&self) -> Vec<Span> {
        let mut spans = std::mem::take(&mut *self.lock());
        spans.sort_by_key(|span| span.begun);
        spans
    }
}

/// The steps of many runs, in the order of their first occurrence.
#[derive(Default)]
pub(crate) struct Breakdown {
    steps: Vec<(String, Measurements, Measurements)>,
    between: Measurements,
    whole: Measurements,
}

impl Breakdown {
    pub(crate) fn add(&mut self, spans: &[Span], begun: Instant, whole: Duration) {
        for span in spans {
            let (offset, taken) = (span.begun.saturating_duration_since(begun), span.ended - span.begun);
            match self.steps.iter_mut().find(|(what, _, _)| *what == span.what) {
                Some((_, begins, takes)) => {
                    begins.add(offset);
                    takes.add(taken);
                }
                None => {
                    let (mut begins, mut takes) = (Measurements::default(), Measurements::default());
                    begins.add(offset);
                    takes.add(taken);
                    self.steps.push((span.what.clone(), begins, takes));
                }
            }
        }
        self.between.add(whole.saturating_sub(covered(spans)));
        self.whole.add(whole);
    }

    pub(crate) fn print(&self, title: &str) {
        println!("{title:<44}{:>12}{:>12}{:>12}", "begins p50", "takes p50", "takes p99");
        for (what, begins, takes) in &self.steps {
            let (begins, p50, p99) = (begins.p50(), takes.p50(), takes.p99());
            println!(
                "{what:<44}{:>12}{:>12}{:>12}",
                milliseconds(begins),
                milliseconds(p50),
                milliseconds(p99)
            );
        }
        let rows = [("between them: deciding, waking up", &self.between), ("whole life", &self.whole)];
        for (what, figures) in rows {
            println!("{what:<56}{:>12}{:>12}", milliseconds(figures.p50()), milliseconds(figures.p99()));
        }
    }
}

/// How much of the time at least one step was in progress.
fn covered(sorted: &[Span]) -> Duration {
    let mut sum = Duration::ZERO;
    let mut until: Option<Instant> = None;
    for span in sorted {
        let begun = until.map_or(span.begun, |until| until.max(span.begun));
        sum += span.ended.saturating_duration_since(begun);
        until = Some(until.map_or(span.ended, |until| until.max(span.ended)));
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_spans_are_counted_once() {
        let zero = now();
        let span = |begun, ended| Span {
            what: String::new(),
            begun: zero + Duration::from_millis(begun),
            ended: zero + Duration::from_millis(ended),
        };

        assert_eq!(covered(&[span(0, 4), span(2, 3), span(3, 6), span(10, 11)]), Duration::from_millis(7));
        assert_eq!(covered(&[]), Duration::ZERO);
    }
}
