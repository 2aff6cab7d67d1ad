//! `pinfold stop`: stops sandboxes and prints the receipts that prove them gone.

use std::fmt::Write as _;
use std::process::ExitCode;

use pinfold_api::{Check, Receipt};
use serde::Serialize;
use serde_json::Value;

use crate::GlobalOptions;
use crate::backend::Backend;
use crate::bulk::BulkOptions;
use crate::colour::StatusColour;
use crate::exit;
use crate::failure::{self, Failure, code_of};
use crate::find::find;
use crate::json_output::{self, wire_name};
use crate::progress::Progress;
use crate::table::{escape_control, format_table};
use crate::units::milliseconds;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Kill at once, without a grace period
    #[arg(long)]
    force: bool,
    /// How long processes may take to end after SIGTERM: seconds, or 500ms, 5s. Not set: the sandbox's own
    #[arg(long, value_name = "TIME", value_parser = milliseconds, conflicts_with = "force")]
    grace: Option<u64>,
    /// State that a quarantined instance is gone, where no observation can prove it
    #[arg(long, requires = "reason")]
    attest: bool,
    /// How you know that it is gone; recorded in the receipt
    #[arg(long, value_name = "TEXT", requires = "attest")]
    reason: Option<String>,
    /// How long to wait for the receipt: seconds, or 90s, 5m
    #[arg(long, value_name = "TIME", value_parser = milliseconds, allow_hyphen_values = true, default_value = "30s")]
    wait: u64,
    #[command(flatten)]
    bulk: BulkOptions,
    /// Sandboxes: ids, unique prefixes of ids, or names
    #[arg(value_name = "SANDBOX")]
    sandboxes: Vec<String>,
}

/// How long a stop is waited for.
const WAIT_MS: u64 = 30_000;

impl Options {
    /// Stops every sandbox of an age that is not critical.
    pub(crate) fn older_than(ms: u64, dry_run: bool) -> Self {
        let bulk = BulkOptions::older_than(ms, dry_run);
        Self {
            force: false,
            grace: None,
            attest: false,
            reason: None,
            wait: WAIT_MS,
            bulk,
            sandboxes: Vec::new(),
        }
    }

    fn grace_ms(&self) -> Option<u64> {
        if self.force { Some(0) } else { self.grace }
    }
}

/// The result of stopping one sandbox.
type StopOutcome = anyhow::Result<Receipt>;

pub(crate) async fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<ExitCode> {
    options.bulk.check(&options.sandboxes)?;
    if options.bulk.is_bulk() && options.attest {
        let why = "an attestation is about one sandbox; name it".to_owned();
        return Err(Failure::BadField { field: "attest", why }.into());
    }
    // An attestation names the operator: this process knows the user, a server only the token.
    let backend = if options.attest {
        Backend::open_preferring_local(global).await?
    } else {
        Backend::open(global).await?
    };
    if !options.bulk.is_bulk() {
        return stop_all(global, backend, options, &options.sandboxes).await;
    }
    let selection = options.bulk.select(&backend).await?;
    if !global.json {
        anstream::print!("{}", selection.format(options.bulk.dry_run));
    }
    if options.bulk.dry_run {
        backend.close().await?;
        if global.json {
            json_output::print(&selection.stopped)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let ids: Vec<String> = selection.stopped.into_iter().map(|it| it.id).collect();
    stop_all(global, backend, options, &ids).await
}

async fn stop_all(
    global: &GlobalOptions,
    backend: Backend,
    options: &Options,
    sandboxes: &[String],
) -> anyhow::Result<ExitCode> {
    let mut requested = Vec::new();
    // Request all stops before waiting for the first.
    for given in sandboxes {
        requested.push((given, request_stop(&backend, options, given).await));
    }
    let waiting = Progress::of("stopping");
    let mut ended = Vec::new();
    for (given, id) in requested {
        let outcome = match id {
            Ok(id) => receipt(&backend, id, options).await,
            Err(error) => Err(error),
        };
        ended.push((given.as_str(), outcome));
    }
    drop(waiting);
    backend.close().await?;
    if global.json {
        json_output::print(
            &ended.iter().map(|(given, ended)| outcome_json(given, ended)).collect::<Vec<_>>(),
        )?;
    } else {
        ended.iter().for_each(|(_, ended)| print_outcome(ended));
    }
    let all_gone = ended.iter().all(|(_, ended)| ended.is_ok());
    Ok(if all_gone { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) })
}

async fn request_stop(backend: &Backend, options: &Options, given: &str) -> anyhow::Result<String> {
    let id = find(backend, given).await?;
    match &options.reason {
        Some(reason) => backend.attest(&id, operator(), reason).await?,
        None => {
            backend.stop(&id, options.grace_ms(), 0).await?;
        }
    }
    Ok(id)
}

/// The operator's name for attestations: the user name from the environment, and the uid.
pub(crate) fn operator() -> String {
    let uid = rustix::process::getuid().as_raw();
    let name = ["SUDO_USER", "USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    name.map_or_else(|| format!("uid {uid}"), |name| format!("{name} (uid {uid})"))
}

async fn receipt(backend: &Backend, id: String, options: &Options) -> StopOutcome {
    match backend.stop(&id, options.grace_ms(), options.wait).await? {
        Some(receipt) => Ok(receipt),
        None => Err(Failure::NotProvenGone { id }.into()),
    }
}

fn outcome_json(given: &str, ended: &StopOutcome) -> Value {
    #[derive(Serialize)]
    struct Failed<'a> {
        sandbox: &'a str,
        #[serde(flatten)]
        error: Value,
    }
    let value = match ended {
        Ok(receipt) => serde_json::to_value(receipt),
        Err(error) => {
            let error = json_output::error(&code_of(error), &failure::message(error));
            serde_json::to_value(Failed { sandbox: given, error })
        }
    };
    value.unwrap_or_else(|error| json_output::error("failed", &error.to_string()))
}

fn print_outcome(ended: &StopOutcome) {
    match ended {
        Ok(receipt) => anstream::print!("{}", format_receipt(receipt)),
        Err(error) => failure::say(&failure::message(error)),
    }
}

/// Formats a receipt for a terminal, with colours: each check and its result.
pub(crate) fn format_receipt(receipt: &Receipt) -> String {
    let row = |check: &Check| {
        let detail = check.detail.as_deref().map(escape_control).unwrap_or_default();
        let result = StatusColour::from(check.result).paint(&wire_name(&check.result));
        vec![format!("  {}", check.kind), result, check.means.clone(), detail]
    };
    let mut text = json_output::receipt_summary(receipt);
    let _ = write!(text, "\n{}", format_table(&receipt.checks.iter().map(row).collect::<Vec<_>>()));
    text
}
