//! Prints tables of measurements.

use pinfold_bench_report::{Measurements, describe, milliseconds};

use crate::Session;

/// Prints what was measured, where, and how often.
pub(crate) fn print_header(what: &str, session: &Session) -> anyhow::Result<()> {
    println!("{}; Pinfold {}", describe()?, env!("CARGO_PKG_VERSION"));
    println!("{what}");
    if session.quick {
        println!("few runs: to see that it works, not to quote");
    }
    println!();
    Ok(())
}

/// One named row with p50, p99 and the number of runs.
pub(crate) fn print_measurements(name: &str, figures: &Measurements) {
    println!(
        "{name:<44}{:>12}{:>12}{:>8}",
        milliseconds(figures.p50()),
        milliseconds(figures.p99()),
        figures.count()
    );
}

pub(crate) fn print_titles(name: &str) {
    println!("{name:<44}{:>12}{:>12}{:>8}", "p50 ms", "p99 ms", "runs");
}

pub(crate) fn ratio(ours: std::time::Duration, theirs: std::time::Duration) -> f64 {
    ours.as_secs_f64() / theirs.as_secs_f64()
}
