//! `pinfold doctor`: what this machine can enforce and how to get the rest; or what is wrong with one sandbox.

use std::process::ExitCode;

use pinfold_api::Examination;
use pinfold_linux::doctor::{Diagnosis, Standing, diagnose};
use serde::Serialize;

use crate::Place;
use crate::documents::{self, word};
use crate::exit;
use crate::find::find;
use crate::host::data_directory;
use crate::plane::Plane;
use crate::progress::Progress;
use crate::table::{harmless, lay_out};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// One sandbox: its id, a beginning of it that is no other's, or its name
    sandbox: Option<String>,
}

pub(crate) async fn run(place: &Place, options: &Options) -> anyhow::Result<ExitCode> {
    match &options.sandbox {
        Some(given) => examine(place, given).await,
        None => look_at_machine(place),
    }
}

/// Whether sandboxes can run here, and each thing they rely on.
#[derive(Serialize)]
struct MachineDocument {
    can_run: bool,
    user: &'static str,
    abilities: Vec<AbilityDocument>,
}

#[derive(Serialize)]
struct AbilityDocument {
    ability: &'static str,
    standing: &'static str,
    means: String,
    advice: Option<String>,
    needed: bool,
}

fn look_at_machine(place: &Place) -> anyhow::Result<ExitCode> {
    let found = diagnose(&data_directory(place.data_dir.as_ref())?);
    let can_run = !found.iter().any(Diagnosis::is_fatal);
    let is_root = rustix::process::getuid().is_root();
    if place.json {
        let user = if is_root { "root" } else { "ordinary" };
        let abilities = found.into_iter().map(ability).collect();
        documents::print(&MachineDocument { can_run, user, abilities })?;
    } else {
        tell_of_machine(&found, can_run, is_root);
    }
    Ok(if can_run { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) })
}

fn ability(found: Diagnosis) -> AbilityDocument {
    let Diagnosis { ability, standing, means, advice, is_needed } = found;
    AbilityDocument { ability, standing: named(standing), means, advice, needed: is_needed }
}

fn named(standing: Standing) -> &'static str {
    match standing {
        Standing::Enforced => "enforced",
        Standing::Watched => "watched",
        Standing::Missing => "missing",
    }
}

fn tell_of_machine(found: &[Diagnosis], can_run: bool, is_root: bool) {
    let row =
        |it: &Diagnosis| vec![it.ability.to_owned(), named(it.standing).to_owned(), harmless(&it.means)];
    anstream::print!("{}", lay_out(&found.iter().map(row).collect::<Vec<_>>()));
    let lacking: Vec<_> = found.iter().filter_map(|it| Some((it, it.advice.as_ref()?))).collect();
    if !lacking.is_empty() {
        anstream::println!("\nTo get the rest:");
        lacking.iter().for_each(|(it, advice)| anstream::println!("  {}: {advice}", it.ability));
    }
    if !is_root {
        anstream::println!(
            "\nThis is an ordinary user: control groups and ids of their own for sandboxes need root or a delegated \
             group, since the kernel gives them out to nobody else."
        );
    }
    anstream::println!("\nSandboxes {} run here.", if can_run { "can" } else { "cannot" });
}

/// One sandbox: what is recorded, what was tried, and what to do.
async fn examine(place: &Place, given: &str) -> anyhow::Result<ExitCode> {
    let plane = Plane::open(place).await?;
    let id = find(&plane, given).await?;
    let waiting = Progress::of("trying what can be tried");
    let patient = plane.examine(&id).await;
    drop(waiting);
    plane.close().await?;
    let patient = patient?;
    if place.json {
        documents::print(&patient)?;
    } else {
        tell_of_patient(&patient);
    }
    Ok(if patient.troubles.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) })
}

fn tell_of_patient(patient: &Examination) {
    let it = &patient.sandbox;
    anstream::println!("{} is {}{}", it.id, word(&it.status.state), said(&it.status.message));
    if let Some(at) = &it.status.verified_at {
        anstream::println!("last proven to work {at}, generation {}", it.generation);
    }
    let left = |ms: u64| crate::table::age(ms);
    let rows = patient.due.iter().map(|it| vec![format!("  {}", it.what), it.at.clone(), left(it.left_ms)]);
    anstream::print!("{}", lay_out(&rows.collect::<Vec<_>>()));
    let judged = |passed: bool| if passed { "passed" } else { "failed" };
    let rows = patient.probes.iter().map(|it| {
        let took = format!("{:.3} ms", it.took_ms);
        vec![format!("  {}", it.probe), judged(it.passed).to_owned(), took, harmless(&it.answer)]
    });
    anstream::print!("{}", lay_out(&rows.collect::<Vec<_>>()));
    anstream::println!("{}", harmless(&patient.verdict));
    for trouble in &patient.troubles {
        anstream::println!("\n{}: {}", word(&trouble.kind), harmless(&trouble.means));
        anstream::println!("  seen: {}", harmless(&trouble.saw));
        anstream::println!("  do:   {}", harmless(&trouble.resolve));
    }
}

fn said(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {}", harmless(message)) }
}
