//! `pinfold doctor`: what this machine can enforce and how to get the rest; or what is wrong with one sandbox.

use std::process::ExitCode;

use pinfold_api::{Sandbox, State};
use pinfold_engine::Clock;
use pinfold_lifecycle::{Lease, Life, SandboxId, Timestamp};
use pinfold_linux::Examined;
use pinfold_linux::doctor::{Diagnosis, Standing, diagnose};
use pinfold_provider::Body;
use pinfold_store::{Row, Store, Stored};
use serde::Serialize;

use crate::Place;
use crate::documents::{self, moment, word};
use crate::exit;
use crate::failure::Failure;
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
    print!("{}", lay_out(&found.iter().map(row).collect::<Vec<_>>()));
    let lacking: Vec<_> = found.iter().filter_map(|it| Some((it, it.advice.as_ref()?))).collect();
    if !lacking.is_empty() {
        println!("\nTo get the rest:");
        lacking.iter().for_each(|(it, advice)| println!("  {}: {advice}", it.ability));
    }
    if !is_root {
        println!(
            "\nThis is an ordinary user: control groups and ids of their own for sandboxes need root or a delegated \
             group, since the kernel gives them out to nobody else."
        );
    }
    println!("\nSandboxes {} run here.", if can_run { "can" } else { "cannot" });
}

/// One sandbox: what is recorded, what was tried, and what to do.
#[derive(Serialize)]
struct PatientDocument {
    #[serde(flatten)]
    sandbox: Sandbox,
    #[serde(rename = "due")]
    deadlines: Vec<DeadlineDocument>,
    probes: Vec<ProbeDocument>,
    verdict: String,
    advice: Vec<String>,
}

#[derive(Serialize)]
struct DeadlineDocument {
    what: &'static str,
    at: String,
    left_ms: u64,
}

#[derive(Serialize)]
struct ProbeDocument {
    probe: &'static str,
    passed: bool,
    answer: String,
    took_ms: f64,
}

async fn examine(place: &Place, given: &str) -> anyhow::Result<ExitCode> {
    let plane = Plane::open_at_hand(place).await?;
    let host = plane.at_hand("doctor")?.service.host();
    let id = find(&plane, given).await?;
    let unknown = || Failure::Unknown { given: given.to_owned() };
    let row = host.store.load(id.parse()?).await?.ok_or_else(unknown)?;
    let now = host.clock.now();
    let sandbox = plane.sandbox(&id).await?;
    let waiting = Progress::of("trying what can be tried");
    let examined = match &row {
        Row::Readable(stored) if !stored.sandbox.is_settled() => {
            host.provider.examine(body_of(row.id(), &stored.sandbox.lease)).await
        }
        Row::Readable(_) | Row::Unreadable(_) => Vec::new(),
    };
    drop(waiting);
    plane.close().await?;
    let deadlines = match &row {
        Row::Readable(stored) => deadlines(stored, now),
        Row::Unreadable(_) => Vec::new(),
    };
    let patient = patient(sandbox, deadlines, examined);
    let is_well = patient.advice.is_empty();
    if place.json {
        documents::print(&patient)?;
    } else {
        tell_of_patient(&patient);
    }
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) })
}

fn body_of(sandbox: SandboxId, lease: &Lease) -> Body {
    Body { sandbox, generation: lease.generation() }
}

fn deadlines(stored: &Stored, now: Timestamp) -> Vec<DeadlineDocument> {
    let sandbox = &stored.sandbox;
    if sandbox.is_settled() {
        return Vec::new();
    }
    let live = match &sandbox.lease {
        Lease::Live(live) => Some(live),
        _ => None,
    };
    let is_starting = matches!(sandbox.life, Life::Wanted) && live.is_none();
    let known = [
        ("the next thing that is due", sandbox.next_deadline()),
        ("it must be ready", is_starting.then_some(sandbox.start_by)),
        ("it counts as idle", live.and_then(|live| live.idle_by)),
        ("it is looked at again", live.map(|live| live.health.next_check)),
        ("the end of its life", Some(sandbox.expires_at)),
    ];
    let told = known.into_iter().filter_map(|(what, at)| Some((what, at?)));
    told.map(|(what, at)| DeadlineDocument { what, at: moment(at), left_ms: at.ms_since(now) }).collect()
}

fn patient(sandbox: Sandbox, deadlines: Vec<DeadlineDocument>, examined: Vec<Examined>) -> PatientDocument {
    let mut advice: Vec<String> =
        examined.iter().filter_map(|it| Some(format!("{}: {}", it.probe, it.advice?))).collect();
    let is_over = matches!(sandbox.status.state, State::Completed | State::Failed | State::Terminated);
    if sandbox.status.state == State::Quarantined {
        advice.push(
            "quarantined: see what is left above; `pinfold stop --attest --reason …` once it is gone".into(),
        );
    }
    if sandbox.flags.iter().any(|flag| flag == "unreadable") {
        advice.push("its record cannot be read: pinfold reconcile".into());
    }
    let verdict = if is_over {
        format!("it has ended with {}", sandbox.cause.as_ref().map(word).unwrap_or_default())
    } else if advice.is_empty() {
        "all that was tried works".to_owned()
    } else {
        "not all that was tried works".to_owned()
    };
    let probe = |it: Examined| ProbeDocument {
        probe: it.probe,
        passed: it.passed,
        answer: it.answer,
        took_ms: (it.took.as_secs_f64() * 1e6).round() / 1e3,
    };
    PatientDocument { sandbox, deadlines, probes: examined.into_iter().map(probe).collect(), verdict, advice }
}

fn tell_of_patient(patient: &PatientDocument) {
    let it = &patient.sandbox;
    println!("{} is {}{}", it.id, word(&it.status.state), said(&it.status.message));
    if let Some(at) = &it.status.verified_at {
        println!("last proven to work {at}, generation {}", it.generation);
    }
    let left = |ms: u64| crate::table::age(ms);
    let rows =
        patient.deadlines.iter().map(|it| vec![format!("  {}", it.what), it.at.clone(), left(it.left_ms)]);
    print!("{}", lay_out(&rows.collect::<Vec<_>>()));
    let judged = |passed: bool| if passed { "passed" } else { "failed" };
    let rows = patient.probes.iter().map(|it| {
        let took = format!("{:.3} ms", it.took_ms);
        vec![format!("  {}", it.probe), judged(it.passed).to_owned(), took, harmless(&it.answer)]
    });
    print!("{}", lay_out(&rows.collect::<Vec<_>>()));
    println!("{}", patient.verdict);
    patient.advice.iter().for_each(|advice| println!("  {advice}"));
}

fn said(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {}", harmless(message)) }
}
