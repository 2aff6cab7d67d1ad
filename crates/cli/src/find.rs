//! Which sandbox is meant: by its whole id, by its name, or by the beginning of its id.

use pinfold_api::SandboxSummary;
use pinfold_lifecycle::SandboxId;
use pinfold_store::{Filter, Row, SqliteStore, Store};

use crate::failure::Failure;
use crate::plane::{Plane, Wanted};

/// How many are named where more than one may be meant.
const NAMED: usize = 5;
/// Rows read at a time.
const PAGE: usize = 500;

/// Its id.
pub(crate) async fn find(plane: &Plane, given: &str) -> anyhow::Result<String> {
    if given.parse::<SandboxId>().is_ok() {
        return Ok(given.to_owned());
    }
    let is_beginning = given.starts_with(SandboxId::PREFIX);
    let is_meant = |it: &SandboxSummary| {
        if is_beginning { it.id.starts_with(given) } else { it.name.as_deref() == Some(given) }
    };
    // A name can be used again once its sandbox is gone.
    let mut found = Vec::new();
    if !is_beginning {
        found = plane.list(&Wanted::default()).await?;
        found.retain(is_meant);
    }
    if found.is_empty() {
        found = plane.list(&Wanted { status: Some("all".into()), ..Wanted::default() }).await?;
        found.retain(is_meant);
    }
    match found.len() {
        0 => Err(Failure::Unknown { given: given.to_owned() }.into()),
        1 => Ok(found.remove(0).id),
        _ => {
            let among = found.into_iter().take(NAMED).map(|it| it.id).collect();
            Err(Failure::Ambiguous { given: given.to_owned(), among }.into())
        }
    }
}

/// Every row, page by page.
pub(crate) async fn all(store: &SqliteStore, filter: Filter) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    loop {
        let page = store.list(filter, rows.last().map(Row::id), PAGE).await?;
        if page.is_empty() {
            return Ok(rows);
        }
        rows.extend(page);
    }
}
