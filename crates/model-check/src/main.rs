//! Checks every model, then removes every guard in turn. Fails if an invariant is violated with all guards in place,
//! or if none is violated with one removed.
#![expect(clippy::print_stdout, reason = "the program prints its results")]

use std::process::ExitCode;

use pinfold_model_check::mutants::{self, Mutant, Removed};
use pinfold_model_check::{Findings, explore, models};

fn main() -> ExitCode {
    let models = models::all();
    let mutants = mutants::all();
    let many = models.len();

    println!("{:<14} {:>10}  {:<9} {:>5} {:>8}", "model", "states", "explored", "depth", "seconds");
    let mut states = 0;
    let mut sound = true;
    for small in models {
        let findings = explore(small);
        states += findings.states;
        sound &= report(&findings);
    }

    println!(
        "\n{:<32} {:<14} {:<40} {:>8} {:>6}",
        "removed", "model", "violated invariant", "states", "steps"
    );
    let mut guards = Vec::new();
    for mutant in &mutants {
        let caught = is_caught(mutant);
        sound &= caught;
        if let (true, Removed::Guard(guard)) = (caught, mutant.removed)
            && !guards.contains(&guard)
        {
            guards.push(guard);
        }
    }

    println!(
        "\nmodel checker: {states} distinct states in {many} models, {} guards removed and caught",
        guards.len()
    );
    if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn report(findings: &Findings) -> bool {
    let whole = findings.violations.is_empty();
    println!(
        "{:<14} {:>10}  {:<9} {:>5} {:>8.1}",
        findings.name,
        findings.states,
        if whole { "all" } else { "partial" },
        findings.depth,
        findings.took.as_secs_f64()
    );
    for (invariant, steps) in &findings.violations {
        println!("\n`{invariant}` is violated after:");
        for step in steps {
            println!("  {step}");
        }
    }
    whole
}

fn is_caught(mutant: &Mutant) -> bool {
    let findings = mutant.run();
    let name = mutant.invariant.name();
    let steps = findings.violations.iter().find(|(violated, _)| *violated == name);
    let length = steps.map_or("MISSED".to_owned(), |(_, steps)| steps.len().to_string());
    println!(
        "{:<32} {:<14} {:<40} {:>8} {:>6}",
        mutant.removed, findings.name, name, findings.states, length
    );
    steps.is_some()
}
