//! `pinfold doctor`: reports what this machine can enforce, or diagnoses one sandbox.

use std::process::ExitCode;

use pinfold_api::Examination;
use pinfold_linux::doctor::{Diagnosis, Enforcement, diagnose};
use serde::Serialize;

use crate::GlobalOptions;
use crate::backend::Backend;
use crate::data_directory::data_directory;
use crate::exit;
use crate::find::find;
use crate::json_output::{self, wire_name};
use crate::progress::Progress;
use crate::table::{escape_control, format_table};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Diagnose this sandbox: its id, a unique prefix of the id, or its name
    sandbox: Option<String>,
}

pub(crate) async fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<ExitCode> {
    match &options.sandbox {
        Some(given) => examine(global, given).await,
        None => diagnose_machine(global),
    }
}

/// Whether sandboxes can run on this machine, and each ability they need.
#[derive(Serialize)]
struct MachineReport {
    can_run: bool,
    user: &'static str,
    abilities: Vec<AbilityReport>,
}

#[derive(Serialize)]
struct AbilityReport {
    ability: &'static str,
    enforcement: &'static str,
    means: String,
    advice: Option<String>,
    needed: bool,
}

fn diagnose_machine(global: &GlobalOptions) -> anyhow::Result<ExitCode> {
    let found = diagnose(&data_directory(global.data_dir.as_ref())?);
    let can_run = !found.iter().any(Diagnosis::is_fatal);
    let is_root = rustix::process::getuid().is_root();
    if global.json {
        let user = if is_root { "root" } else { "ordinary" };
        let abilities = found.into_iter().map(ability).collect();
        json_output::print(&MachineReport { can_run, user, abilities })?;
    } else {
        print_machine(&found, can_run, is_root);
    }
    Ok(if can_run { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) })
}

fn ability(found: Diagnosis) -> AbilityReport {
    let Diagnosis { ability, enforcement, means, advice, is_required } = found;
    AbilityReport { ability, enforcement: enforcement_name(enforcement), means, advice, needed: is_required }
}

fn enforcement_name(enforcement: Enforcement) -> &'static str {
    match enforcement {
        Enforcement::Enforced => "enforced",
        Enforcement::Watched => "watched",
        Enforcement::Missing => "missing",
    }
}

fn print_machine(found: &[Diagnosis], can_run: bool, is_root: bool) {
    let row = |it: &Diagnosis| {
        vec![it.ability.to_owned(), enforcement_name(it.enforcement).to_owned(), escape_control(&it.means)]
    };
    anstream::print!("{}", format_table(&found.iter().map(row).collect::<Vec<_>>()));
    let lacking: Vec<_> = found.iter().filter_map(|it| Some((it, it.advice.as_ref()?))).collect();
    if !lacking.is_empty() {
        anstream::println!("\nTo enable the missing abilities:");
        lacking.iter().for_each(|(it, advice)| anstream::println!("  {}: {advice}", it.ability));
    }
    if !is_root {
        anstream::println!(
            "\nYou are not root: control groups and separate user ids for sandboxes need root or a delegated \
             group."
        );
    }
    anstream::println!("\nSandboxes {} run here.", if can_run { "can" } else { "cannot" });
}

/// Diagnoses one sandbox: its record, its probes, and what to do.
async fn examine(global: &GlobalOptions, given: &str) -> anyhow::Result<ExitCode> {
    let backend = Backend::open(global).await?;
    let id = find(&backend, given).await?;
    let waiting = Progress::of("running probes");
    let examination = backend.examine(&id).await;
    drop(waiting);
    backend.close().await?;
    let examination = examination?;
    if global.json {
        json_output::print(&examination)?;
    } else {
        print_examination(&examination);
    }
    Ok(if examination.troubles.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) })
}

fn print_examination(examination: &Examination) {
    let it = &examination.sandbox;
    anstream::println!("{} is {}{}", it.id, wire_name(&it.status.state), message_suffix(&it.status.message));
    if let Some(at) = &it.status.verified_at {
        anstream::println!("last passed probe {at}, generation {}", it.generation);
    }
    let left = |ms: u64| crate::table::age(ms);
    let rows =
        examination.due.iter().map(|it| vec![format!("  {}", it.what), it.at.clone(), left(it.left_ms)]);
    anstream::print!("{}", format_table(&rows.collect::<Vec<_>>()));
    let verdict = |passed: bool| if passed { "passed" } else { "failed" };
    let rows = examination.probes.iter().map(|it| {
        let took = format!("{:.3} ms", it.took_ms);
        vec![format!("  {}", it.probe), verdict(it.passed).to_owned(), took, escape_control(&it.answer)]
    });
    anstream::print!("{}", format_table(&rows.collect::<Vec<_>>()));
    anstream::println!("{}", escape_control(&examination.verdict));
    for trouble in &examination.troubles {
        anstream::println!("\n{}: {}", wire_name(&trouble.kind), escape_control(&trouble.means));
        anstream::println!("  found: {}", escape_control(&trouble.saw));
        anstream::println!("  do:   {}", escape_control(&trouble.resolve));
    }
}

fn message_suffix(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {}", escape_control(message)) }
}
