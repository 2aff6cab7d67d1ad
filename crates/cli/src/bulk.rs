//! Stops many sandboxes at once: those that a filter selects. Shows them first; a dry run does only that.

use pinfold_api::SandboxSummary;

use crate::backend::{Backend, SandboxQuery};
use crate::failure::Failure;
use crate::json_output::{ms_of, wire_name};
use crate::table::{age, escape_control, format_table};
use crate::units::{milliseconds, pair};

#[derive(clap::Args)]
#[command(next_help_heading = "Bulk options")]
pub(crate) struct BulkOptions {
    /// Stop every sandbox that matches the other bulk options; without one, every sandbox. Critical ones are kept
    #[arg(long)]
    all: bool,
    /// Stop the sandboxes with this label; may be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = pair)]
    labels: Vec<(String, String)>,
    /// Stop the sandboxes of this task
    #[arg(long, value_name = "ID")]
    task: Option<String>,
    /// Stop the sandboxes that are older: seconds, or 90s, 10m, 1h
    #[arg(long, value_name = "TIME", value_parser = milliseconds, allow_hyphen_values = true)]
    older_than: Option<u64>,
    /// Stop the sandboxes with this flag, such as `stuck`, `old` or `unhealthy`; may be repeated
    #[arg(long = "flag", value_name = "FLAG")]
    flags: Vec<String>,
    /// Only print which sandboxes would be stopped
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// What a filter selects.
pub(crate) struct Selection {
    pub(crate) stopped: Vec<SandboxSummary>,
    /// Critical sandboxes, which are stopped only by name.
    pub(crate) kept: Vec<SandboxSummary>,
}

impl BulkOptions {
    /// Sandboxes older than this, for a cleanup by age.
    pub(crate) fn older_than(ms: u64, dry_run: bool) -> Self {
        Self { all: true, labels: Vec::new(), task: None, older_than: Some(ms), flags: Vec::new(), dry_run }
    }

    pub(crate) fn is_bulk(&self) -> bool {
        let filters = !self.labels.is_empty() || self.task.is_some() || !self.flags.is_empty();
        self.all || filters || self.older_than.is_some()
    }

    /// Either names or a filter, not both and not none.
    pub(crate) fn check(&self, named: &[String]) -> Result<(), Failure> {
        let bad = |why: &str| Err(Failure::BadField { field: "sandbox", why: why.to_owned() });
        match (self.is_bulk(), named.is_empty()) {
            (true, false) => bad("name sandboxes, or select them with bulk options, but not both"),
            (false, true) => {
                bad("name a sandbox, or select several with --all, --label, --task, --older-than or --flag")
            }
            (false, false) if self.dry_run => {
                bad("--dry-run needs --all, --label, --task, --older-than or --flag")
            }
            (true, true) | (false, false) => Ok(()),
        }
    }

    pub(crate) async fn select(&self, backend: &Backend) -> anyhow::Result<Selection> {
        let query = SandboxQuery {
            labels: self.labels.clone(),
            task_id: self.task.clone(),
            ..SandboxQuery::default()
        };
        let now = jiff::Timestamp::now().as_millisecond();
        let mut found = backend.list(&query).await?;
        found.retain(|it| self.includes(it, now));
        let (kept, stopped) =
            found.into_iter().partition(|it| it.flags.iter().any(|flag| flag == "critical"));
        Ok(Selection { stopped, kept })
    }

    fn includes(&self, sandbox: &SandboxSummary, now: i64) -> bool {
        let is_old = self.older_than.is_none_or(|ms| age_ms(sandbox, now).is_some_and(|age| age > ms));
        is_old && self.flags.iter().all(|wanted| sandbox.flags.contains(wanted))
    }
}

fn age_ms(sandbox: &SandboxSummary, now: i64) -> Option<u64> {
    let created = sandbox.created_at.as_deref().and_then(ms_of)?;
    u64::try_from(now - created).ok()
}

impl Selection {
    /// A table of what is stopped and what is kept.
    pub(crate) fn format(&self, dry_run: bool) -> String {
        let verb = if dry_run { "Would stop" } else { "Stopping" };
        let now = jiff::Timestamp::now().as_millisecond();
        let row = |verb: &str, it: &SandboxSummary| {
            vec![
                verb.to_owned(),
                it.id.clone(),
                it.name.as_deref().map_or_else(|| "-".to_owned(), escape_control),
                wire_name(&it.status),
                age_ms(it, now).map_or_else(|| "-".to_owned(), age),
                if it.flags.is_empty() { "-".to_owned() } else { it.flags.join(",") },
            ]
        };
        let stopped = self.stopped.iter().map(|it| row(verb, it));
        let kept = self.kept.iter().map(|it| row("Kept, critical", it));
        let rows: Vec<_> = stopped.chain(kept).collect();
        format!("Found {} sandboxes\n{}", self.stopped.len(), format_table(&rows))
    }
}
