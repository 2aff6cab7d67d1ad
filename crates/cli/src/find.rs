//! Which sandbox is meant: by its whole id, by its name, or by the beginning of its id.

use pinfold_lifecycle::SandboxId;
use pinfold_store::{Filter, Row, SqliteStore, Store};

use crate::failure::Failure;

/// Rows read at a time: what is not on one page is on the next.
pub(crate) const PAGE: usize = 500;
/// How many are named where more than one may be meant.
const NAMED: usize = 5;
const ID_LENGTH: usize = 30;

pub(crate) async fn find(store: &SqliteStore, given: &str) -> anyhow::Result<Row> {
    let unknown = || Failure::Unknown { given: given.to_owned() };
    if let Ok(id) = given.parse::<SandboxId>() {
        return Ok(store.load(id).await?.ok_or_else(unknown)?);
    }
    let mut found = if given.starts_with(SandboxId::PREFIX) {
        beginning_with(store, given).await?
    } else {
        // A name can be used again once its sandbox is gone.
        match called(store, given, Filter::Present).await? {
            present if present.is_empty() => called(store, given, Filter::Settled).await?,
            present => present,
        }
    };
    match found.len() {
        0 => Err(unknown().into()),
        1 => Ok(found.remove(0)),
        _ => {
            let among = found.iter().take(NAMED).map(Row::id).collect();
            Err(Failure::Ambiguous { given: given.to_owned(), among }.into())
        }
    }
}

/// Ids are sorted, so those with one beginning stand together.
async fn beginning_with(store: &SqliteStore, given: &str) -> anyhow::Result<Vec<Row>> {
    let Ok(SandboxId(first)) = format!("{given:0<ID_LENGTH$}").parse() else { return Ok(Vec::new()) };
    let page = store.list(Filter::All, first.checked_sub(1).map(SandboxId), NAMED).await?;
    Ok(page.into_iter().filter(|row| row.id().to_string().starts_with(given)).collect())
}

async fn called(store: &SqliteStore, name: &str, filter: Filter) -> anyhow::Result<Vec<Row>> {
    let is_called = |row: &Row| match row {
        Row::Readable(stored) => stored.spec.name.as_deref() == Some(name),
        Row::Unreadable(_) => false,
    };
    Ok(all(store, filter).await?.into_iter().filter(is_called).collect())
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
