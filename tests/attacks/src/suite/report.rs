//! The table as people and `cargo xtask test` read it.

use crate::run::Result;

pub(crate) fn line(result: &Result) {
    let verdict = if result.faults.is_empty() { "ok" } else { "FAILED" };
    println!("attack {} ... {verdict}", result.entry.name);
}

/// Says whether all is well. The last line is counted by `cargo xtask test`.
pub(crate) fn table(results: &[Result], postures: &[(String, Vec<String>)], trouble: Option<String>) -> bool {
    println!();
    println!(
        "{:<10} {:<52} {:<16} {:<38} {:<60} held by",
        "group", "what it tries", "cve", "aims at", "proved by"
    );
    for result in results {
        let entry = result.entry;
        let group = format!("{:?}", entry.group).to_lowercase();
        println!(
            "{:<10} {:<52} {:<16} {:<38} {:<60} {}",
            group,
            entry.name,
            entry.cve,
            entry.aims_at,
            result.proved,
            short(&result.outcome)
        );
    }
    println!();
    for (name, faults) in postures {
        println!("posture {name} ... {}", if faults.is_empty() { "ok" } else { "FAILED" });
    }
    let failed_entries = results.iter().filter(|result| !result.faults.is_empty());
    let mut failed = 0;
    for result in failed_entries {
        failed += 1;
        println!("FAILED {}: {}", result.entry.name, result.faults.join("; "));
    }
    for (name, faults) in postures.iter().filter(|(_, faults)| !faults.is_empty()) {
        failed += 1;
        println!("FAILED posture {name}:");
        faults.iter().for_each(|fault| println!("    {fault}"));
    }
    if let Some(trouble) = trouble {
        failed += 1;
        println!("FAILED: the neighbour: {trouble}");
    }
    let all = results.len() + postures.len();
    let unproved = results.iter().filter(|result| result.proved.starts_with("no harmless proof")).count();
    println!(
        "{} attacks, {} proved, {unproved} without a harmless proof",
        results.len(),
        results.len() - unproved
    );
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    let passed = all.saturating_sub(failed);
    println!(
        "test result: {verdict}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out"
    );
    failed == 0
}

/// The first line of what was said, not too long.
fn short(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim_start_matches("held: ").chars().take(90).collect()
}
