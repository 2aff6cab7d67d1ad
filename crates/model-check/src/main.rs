//! Walks through every model, then takes out every guard in turn. Fails if a promise breaks with all guards in
//! place, or does not break with one taken out.
#![expect(clippy::print_stdout, reason = "the tables are what this program is for")]

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

    println!("\n{:<27} {:<14} {:<40} {:>8} {:>6}", "taken out", "model", "broken promise", "states", "steps");
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
    let whole = findings.breaches.is_empty();
    println!(
        "{:<14} {:>10}  {:<9} {:>5} {:>8.1}",
        findings.name,
        findings.states,
        if whole { "wholly" } else { "partly" },
        findings.depth,
        findings.took.as_secs_f64()
    );
    for (promise, steps) in &findings.breaches {
        println!("\n`{promise}` is broken after:");
        for step in steps {
            println!("  {step}");
        }
    }
    whole
}

fn is_caught(mutant: &Mutant) -> bool {
    let findings = mutant.try_out();
    let name = mutant.promise.name();
    let steps = findings.breaches.iter().find(|(broken, _)| *broken == name);
    let length = steps.map_or("MISSED".to_owned(), |(_, steps)| steps.len().to_string());
    println!(
        "{:<27} {:<14} {:<40} {:>8} {:>6}",
        mutant.removed, findings.name, name, findings.states, length
    );
    steps.is_some()
}
