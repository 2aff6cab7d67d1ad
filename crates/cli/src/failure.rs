//! What can go wrong for whoever types a command: one table from failures to codes, and one place that tells.

use std::io::{self, Write};
use std::process::ExitCode;

use pinfold_engine::ApplyError;
use pinfold_lifecycle::Refusal;
use pinfold_lifecycle::profile::{BadLimit, UnknownProfile};
use pinfold_logs::printable;
use pinfold_store::{OpenError, StoreError};

use crate::documents::{self, word};
use crate::exit;
use crate::plane::PlaneError;
use crate::settings::SettingsError;
use crate::stdout;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("there is no sandbox `{given}`; `pinfold ps --all` lists them")]
    Unknown { given: String },
    #[error("`{given}` may be any of {}; write more of its id", among.join(", "))]
    Ambiguous { given: String, among: Vec<String> },
    #[error("{id} could not be proven gone yet; it is looked at again by every command that runs")]
    NotProvenGone { id: String },
    #[error("{id} is not proven gone; `pinfold stop {id}` ends it first")]
    StillThere { id: String },
    #[error(
        "image: there is no `{given}` on this host; `pinfold image ls` lists them, and `host` is always there"
    )]
    NoImage { given: String },
    #[error(
        "PINFOLD_URL names the server at {url}, and there is no token for it: set PINFOLD_TOKEN to one that \
         `pinfold token create` made there, or say --local"
    )]
    NoToken { url: String },
    #[error("{field}: {why}")]
    BadField { field: &'static str, why: String },
}

pub(crate) fn in_brackets(detail: Option<&String>) -> String {
    detail.map(|detail| format!(" ({detail})")).unwrap_or_default()
}

/// Says it on standard error, or in a document on standard output.
pub(crate) fn report(error: &anyhow::Error, json: bool, failed: u8) -> ExitCode {
    let code = code_of(error);
    if json {
        // There is nobody left to tell if that fails too.
        let _ = stdout::print(format!("{}\n", documents::error(&code, &told(error))).as_bytes());
    } else {
        say(&told(error));
    }
    ExitCode::from(if code == BAD_INPUT { exit::BAD_INPUT } else { failed })
}

/// A line for people on standard error. What was named inside a sandbox may be quoted in it, and no terminal is to obey
/// that.
pub(crate) fn say(what: &str) {
    // Whoever does not listen any more misses nothing but words.
    let _ = writeln!(io::stderr(), "pinfold: {}", printable(what));
}

/// With what to do next, where that is known.
pub(crate) fn told(error: &anyhow::Error) -> String {
    let advice = match code_of(error).as_str() {
        "unknown_sandbox" if !error.is::<Failure>() => "; `pinfold ps --all` lists them",
        "sandbox_gone" => "; `pinfold inspect` and `pinfold logs` still tell about it",
        "sandbox_busy" => "; wait until one has ended, or make another sandbox",
        "limit_reached" => "; `pinfold ps` shows what takes the room, and `pinfold stop` frees it",
        "unknown_token" => "; `pinfold token ls` lists them",
        _ => "",
    };
    format!("{error:#}{}{advice}", why(error))
}

/// What a start failed of is told in a detail.
fn why(error: &anyhow::Error) -> String {
    match error.downcast_ref::<PlaneError>() {
        Some(PlaneError::Refused { detail, .. }) => {
            let why = detail.details.get("why").and_then(|why| why.as_str()).map(str::to_owned);
            in_brackets(why.as_ref())
        }
        _ => String::new(),
    }
}

const BAD_INPUT: &str = "bad_input";

/// A stable name for what went wrong, the same with and without a server.
pub(crate) fn code_of(error: &anyhow::Error) -> String {
    error.chain().find_map(code_of_one).unwrap_or_else(|| "failed".to_owned())
}

fn code_of_one(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        let code = match failure {
            Failure::Unknown { .. } => "unknown_sandbox",
            Failure::Ambiguous { .. } => "ambiguous",
            Failure::NotProvenGone { .. } => "not_proven_gone",
            Failure::StillThere { .. } => "wrong_state",
            Failure::NoToken { .. } => "unauthorized",
            Failure::NoImage { .. } | Failure::BadField { .. } => BAD_INPUT,
        };
        return Some(code.to_owned());
    }
    if let Some(error) = error.downcast_ref::<PlaneError>() {
        return Some(error.code().map_or_else(|| "unreachable".to_owned(), |code| word(&code)));
    }
    if error.is::<BadLimit>() || error.is::<UnknownProfile>() || error.is::<SettingsError>() {
        return Some(BAD_INPUT.to_owned());
    }
    if error.is::<Refusal>() {
        return Some("wrong_state".to_owned());
    }
    match error.downcast_ref::<ApplyError>() {
        Some(ApplyError::Missing) => return Some("unknown_sandbox".to_owned()),
        Some(ApplyError::Refused(_)) => return Some("wrong_state".to_owned()),
        Some(ApplyError::Contended | ApplyError::Store(_) | ApplyError::Wait(_)) | None => {}
    }
    (error.is::<StoreError>() || error.is::<OpenError>()).then(|| "unavailable".to_owned())
}
