//! `pinfold stop`: ends sandboxes, from any process, and prints what proves that they are gone.

use std::process::ExitCode;

use pinfold_engine::{OnExit, Stop};
use pinfold_lifecycle::{Cause, Finding, SandboxId};
use serde::Serialize;
use serde_json::Value;

use crate::Place;
use crate::documents::{self, ReceiptDocument, word};
use crate::exit;
use crate::failure::{Failure, code_of};
use crate::find::find;
use crate::host::{Host, begin};
use crate::progress::Progress;
use crate::quantities::milliseconds;
use crate::table::{harmless, lay_out};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// End it at once instead of asking its processes first
    #[arg(long)]
    force: bool,
    /// Give your word that a quarantined body is gone, where no look can prove it
    #[arg(long, requires = "reason")]
    attest: bool,
    /// Why you can give it; it is recorded
    #[arg(long, value_name = "TEXT", requires = "attest")]
    reason: Option<String>,
    /// How long to wait for the proof: seconds, or 90s, 5m
    #[arg(long, value_name = "TIME", value_parser = milliseconds, default_value = "30s")]
    wait: u64,
    /// The sandboxes: ids, beginnings of ids that are no other's, or names
    #[arg(required = true, value_name = "SANDBOX")]
    sandboxes: Vec<String>,
}

/// What became of one of them.
type Ended = anyhow::Result<ReceiptDocument>;

pub(crate) async fn run(place: &Place, options: &Options) -> anyhow::Result<ExitCode> {
    let host = begin(place).await?;
    let mut asked = Vec::new();
    // All of them are asked to end before the first one is waited for.
    for given in &options.sandboxes {
        asked.push((given, ask(&host, options, given).await));
    }
    let waiting = Progress::of("ending and looking for what is left");
    let mut ended = Vec::new();
    for (given, id) in asked {
        let outcome = match id {
            Ok(id) => receipt(&host, id, options.wait).await,
            Err(error) => Err(error),
        };
        ended.push((given.as_str(), outcome));
    }
    drop(waiting);
    host.engine.shutdown(OnExit::Keep, 0).await?;
    if place.json {
        documents::print(&ended.iter().map(|(given, ended)| document(given, ended)).collect::<Vec<_>>())?;
    } else {
        ended.iter().for_each(|(_, ended)| tell(ended));
    }
    let all_gone = ended.iter().all(|(_, ended)| ended.is_ok());
    Ok(if all_gone { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) })
}

async fn ask(host: &Host, options: &Options, given: &str) -> anyhow::Result<SandboxId> {
    let id = find(&host.store, given).await?.id();
    match &options.reason {
        Some(reason) => host.engine.attest(id, operator(), reason.clone()).await?,
        None => {
            host.engine.stop(id, Cause::StoppedByUser, options.force, 0).await?;
        }
    }
    Ok(id)
}

/// Who gives their word: the user as the system knows them, and the name that the environment gives.
fn operator() -> String {
    let uid = rustix::process::getuid().as_raw();
    let name = ["SUDO_USER", "USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    name.map_or_else(|| format!("uid {uid}"), |name| format!("{name} (uid {uid})"))
}

async fn receipt(host: &Host, id: SandboxId, wait_ms: u64) -> Ended {
    match host.engine.wait_gone(id, wait_ms).await? {
        Stop::Gone { cause, receipt } => Ok(ReceiptDocument::of(id, cause, &receipt)),
        Stop::Pending => Err(Failure::NotProvenGone { id }.into()),
    }
}

fn document(given: &str, ended: &Ended) -> Value {
    #[derive(Serialize)]
    struct Failed<'a> {
        sandbox: &'a str,
        #[serde(flatten)]
        error: Value,
    }
    let value = match ended {
        Ok(receipt) => serde_json::to_value(receipt),
        Err(error) => {
            let error = documents::error(code_of(error), &format!("{error:#}"));
            serde_json::to_value(Failed { sandbox: given, error })
        }
    };
    value.unwrap_or_else(|error| documents::error("failed", &error.to_string()))
}

fn tell(ended: &Ended) {
    let receipt = match ended {
        Ok(receipt) => receipt,
        Err(error) => {
            eprintln!("pinfold: {error:#}");
            return;
        }
    };
    print!("{}", told_of(receipt));
}

/// What proves that it is gone, line by line.
pub(crate) fn told_of(receipt: &ReceiptDocument) -> String {
    let row = |kind: &str, result: Finding, means: &str, detail: Option<&String>| {
        let detail = detail.map(|detail| harmless(detail)).unwrap_or_default();
        vec![format!("  {kind}"), word(&result), means.to_owned(), detail]
    };
    let checks = receipt.checks.iter();
    let rows: Vec<_> =
        checks.map(|check| row(&check.kind, check.result, &check.means, check.detail.as_ref())).collect();
    format!("{receipt}\n{}", lay_out(&rows))
}
