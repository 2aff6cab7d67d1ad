//! The table as people and `cargo xtask test` read it.

use crate::run::Result;

pub(crate) fn line(result: &Result) {
    let verdict = if result.faults.is_empty() { "ok" } else { "FAILED" };
    println!("attack {} ... {verdict}", result.entry.name);
}

/// Prints the table. Whether everything passed. `cargo xtask test` counts the last line.
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
    elsewhere();
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

/// Attacks by archives are unit tests of the code that unpacks them.
const ARCHIVES: [(&str, &str); 2] = [
    ("hostile", include_str!("../../../../crates/images/tests/images/hostile.rs")),
    ("limits", include_str!("../../../../crates/images/tests/images/limits.rs")),
];

fn elsewhere() {
    for (file, text) in ARCHIVES {
        let tests =
            text.split("#[test]").skip(1).filter_map(|test| test.split("fn ").nth(1)?.split('(').next());
        tests.for_each(|name| println!("archives   {name:<76} images, {file}.rs"));
    }
    println!();
}

/// The first line, shortened.
fn short(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim_start_matches("held: ").chars().take(90).collect()
}
