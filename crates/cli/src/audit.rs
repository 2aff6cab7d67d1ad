//! `pinfold audit`: compares what is recorded with what is there, and repairs nothing.

use std::process::ExitCode;

use pinfold_api::Comparison;

use crate::Place;
use crate::documents::{self, word};
use crate::exit;
use crate::plane::Plane;
use crate::progress::Progress;
use crate::table::harmless;

pub(crate) async fn run(place: &Place) -> anyhow::Result<ExitCode> {
    let plane = Plane::open(place).await?;
    let waiting = Progress::of("comparing");
    let found = plane.audit().await?;
    drop(waiting);
    plane.close().await?;
    let problems = problems(&found);
    if place.json {
        documents::print(&found)?;
    } else {
        anstream::println!("{} records, {} bodies", found.records, found.bodies);
        problems.iter().for_each(|problem| anstream::println!("{problem}"));
        if !problems.is_empty() {
            anstream::println!("`pinfold reconcile` repairs what can be repaired");
        }
    }
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) })
}

/// One line for each.
pub(crate) fn problems(found: &Comparison) -> Vec<String> {
    let bodies = found.bodies_without_record.iter();
    let bodies = bodies
        .map(|body| format!("a body without a record: {} generation {}", body.sandbox_id, body.generation));
    let each = |what: &'static str, of: &[String]| -> Vec<String> {
        of.iter().map(|it| format!("{what}: {}", harmless(it))).collect()
    };
    let contradicted = found.status_disagreements.iter().map(|it| {
        let why = it.message.as_deref().map(|why| format!(" ({})", harmless(why))).unwrap_or_default();
        let (status, probe) = (word(&it.status), word(&it.probe));
        format!("a status that its probe contradicts: {} is {status}, probe {probe}{why}", it.sandbox_id)
    });
    bodies
        .chain(contradicted)
        .chain(each("a record without a whole body", &found.records_without_body))
        .chain(each("a record that cannot be read", &found.unreadable_records))
        .chain(each("a mark that cannot be read, left alone", &found.unreadable_marks))
        .chain(each("records that contradict each other", &found.disagreements))
        .collect()
}
