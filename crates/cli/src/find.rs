//! Resolves a sandbox argument: a full id, a name, or a unique prefix of an id.

use pinfold_api::SandboxSummary;
use pinfold_lifecycle::SandboxId;
use pinfold_store::{Row, SandboxFilter, Store};

use crate::backend::{Backend, SandboxQuery};
use crate::failure::Failure;

/// Number of candidates listed for an ambiguous argument.
const MAX_CANDIDATES: usize = 5;
/// Rows read at a time.
const PAGE: usize = 500;

/// Returns the id of the sandbox that `given` names.
pub(crate) async fn find(backend: &Backend, given: &str) -> anyhow::Result<String> {
    if given.parse::<SandboxId>().is_ok() {
        return Ok(given.to_owned());
    }
    let is_prefix = given.starts_with(SandboxId::PREFIX);
    let matches = |it: &SandboxSummary| {
        if is_prefix { it.id.starts_with(given) } else { it.name.as_deref() == Some(given) }
    };
    // Live sandboxes first: a name can be reused once its sandbox is gone.
    let mut found = Vec::new();
    if !is_prefix {
        found = backend.list(&SandboxQuery::default()).await?;
        found.retain(matches);
    }
    if found.is_empty() {
        found = backend.list(&SandboxQuery { status: Some("all".into()), ..SandboxQuery::default() }).await?;
        found.retain(matches);
    }
    match found.len() {
        0 => Err(Failure::Unknown { given: given.to_owned() }.into()),
        1 => Ok(found.remove(0).id),
        _ => {
            let among = found.into_iter().take(MAX_CANDIDATES).map(|it| it.id).collect();
            Err(Failure::Ambiguous { given: given.to_owned(), among }.into())
        }
    }
}

/// Reads every row, page by page.
pub(crate) async fn all(store: &dyn Store, filter: SandboxFilter) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    loop {
        let page = store.list(filter, rows.last().map(Row::id), PAGE).await?;
        if page.is_empty() {
            return Ok(rows);
        }
        rows.extend(page);
    }
}
