//! `pinfold stop`: ends sandboxes, from any process, and prints what proves that they are gone.

use std::fmt::Write as _;
use std::process::ExitCode;

use pinfold_api::{Check, Receipt};
use serde::Serialize;
use serde_json::Value;

use crate::Place;
use crate::colour::Mood;
use crate::documents::{self, word};
use crate::exit;
use crate::failure::{self, Failure, code_of};
use crate::find::find;
use crate::plane::Plane;
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
type Ended = anyhow::Result<Receipt>;

pub(crate) async fn run(place: &Place, options: &Options) -> anyhow::Result<ExitCode> {
    // Who gives their word is known to the system here; a server knows only whose token it is.
    let plane = if options.attest { Plane::open_at_hand(place).await? } else { Plane::open(place).await? };
    let mut asked = Vec::new();
    // All of them are asked to end before the first one is waited for.
    for given in &options.sandboxes {
        asked.push((given, ask(&plane, options, given).await));
    }
    let waiting = Progress::of("ending and looking for what is left");
    let mut ended = Vec::new();
    for (given, id) in asked {
        let outcome = match id {
            Ok(id) => receipt(&plane, id, options).await,
            Err(error) => Err(error),
        };
        ended.push((given.as_str(), outcome));
    }
    drop(waiting);
    plane.close().await?;
    if place.json {
        documents::print(&ended.iter().map(|(given, ended)| document(given, ended)).collect::<Vec<_>>())?;
    } else {
        ended.iter().for_each(|(_, ended)| tell(ended));
    }
    let all_gone = ended.iter().all(|(_, ended)| ended.is_ok());
    Ok(if all_gone { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) })
}

async fn ask(plane: &Plane, options: &Options, given: &str) -> anyhow::Result<String> {
    let id = find(plane, given).await?;
    match &options.reason {
        Some(reason) => plane.attest(&id, operator(), reason).await?,
        None => {
            plane.stop(&id, options.force, 0).await?;
        }
    }
    Ok(id)
}

/// Who gives their word: the user as the system knows them, and the name that the environment gives.
pub(crate) fn operator() -> String {
    let uid = rustix::process::getuid().as_raw();
    let name = ["SUDO_USER", "USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    name.map_or_else(|| format!("uid {uid}"), |name| format!("{name} (uid {uid})"))
}

async fn receipt(plane: &Plane, id: String, options: &Options) -> Ended {
    match plane.stop(&id, options.force, options.wait).await? {
        Some(receipt) => Ok(receipt),
        None => Err(Failure::NotProvenGone { id }.into()),
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
            let error = documents::error(&code_of(error), &failure::told(error));
            serde_json::to_value(Failed { sandbox: given, error })
        }
    };
    value.unwrap_or_else(|error| documents::error("failed", &error.to_string()))
}

fn tell(ended: &Ended) {
    match ended {
        Ok(receipt) => anstream::print!("{}", tell_receipt(receipt)),
        Err(error) => failure::say(&failure::told(error)),
    }
}

/// For people, in colours: what was looked for, and what was found.
pub(crate) fn tell_receipt(receipt: &Receipt) -> String {
    let row = |check: &Check| {
        let detail = check.detail.as_deref().map(harmless).unwrap_or_default();
        let result = Mood::from(check.result).paint(&word(&check.result));
        vec![format!("  {}", check.kind), result, check.means.clone(), detail]
    };
    let mut text = documents::told(receipt);
    let _ = write!(text, "\n{}", lay_out(&receipt.checks.iter().map(row).collect::<Vec<_>>()));
    text
}
