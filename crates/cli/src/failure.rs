//! Errors of commands: their messages, their stable codes, and how they are printed.

use std::io::{self, Write};
use std::process::ExitCode;

use pinfold_client::ClientError;
use pinfold_engine::ApplyError;
use pinfold_lifecycle::Refusal;
use pinfold_lifecycle::profile::{BadLimit, UnknownProfile};
use pinfold_logs::escape_text;
use pinfold_store::{OpenError, StoreError};

use crate::backend::BackendError;
use crate::exit;
use crate::json_output::{self, wire_name};
use crate::settings::SettingsError;
use crate::stdout;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("there is no sandbox `{given}`; list sandboxes with `pinfold ps --all`")]
    Unknown { given: String },
    #[error("`{given}` matches several sandboxes: {}; give a longer prefix of the id", among.join(", "))]
    Ambiguous { given: String, among: Vec<String> },
    #[error("{id} is not proven gone yet; every server and command checks it again until it is")]
    NotProvenGone { id: String },
    #[error("{id} is not proven gone; stop it first with `pinfold stop {id}`")]
    StillThere { id: String },
    #[error(
        "image: there is no image `{given}` on this host; list images with `pinfold image ls`, or use `host`"
    )]
    NoImage { given: String },
    #[error(
        "no token for the server at {url}: set PINFOLD_TOKEN to a token that `pinfold token create` printed \
         there, or use --local"
    )]
    NoToken { url: String },
    #[error(
        "could not start {count} threads; end other processes of this user, or raise the limit of processes \
         with `ulimit -u`"
    )]
    NoThreads { count: usize, source: io::Error },
    #[error("{field}: {why}")]
    BadField { field: &'static str, why: String },
}

pub(crate) fn in_brackets(detail: Option<&String>) -> String {
    detail.map(|detail| format!(" ({detail})")).unwrap_or_default()
}

/// Prints the error on standard error, or as a JSON document on standard output.
pub(crate) fn report(error: &anyhow::Error, json: bool, failed: u8) -> ExitCode {
    let code = code_of(error);
    if json {
        // If standard output is closed, there is no other place to report to.
        let _ = stdout::print(format!("{}\n", json_output::error(&code, &message(error))).as_bytes());
    } else {
        say(&message(error));
    }
    ExitCode::from(if code == BAD_INPUT { exit::BAD_INPUT } else { failed })
}

/// Prints a line on standard error. It may quote names from inside a sandbox, so control characters are escaped.
pub(crate) fn say(what: &str) {
    // A closed standard error is not a failure of the command.
    let _ = writeln!(io::stderr(), "pinfold: {}", escape_text(what));
}

/// The error with its causes and advice.
pub(crate) fn message(error: &anyhow::Error) -> String {
    let advice = match code_of(error).as_str() {
        "unknown_sandbox" if !error.is::<Failure>() => "; list sandboxes with `pinfold ps --all`",
        "sandbox_gone" => "; see `pinfold inspect` and `pinfold logs`",
        "sandbox_busy" => "; wait until an execution has ended, or create another sandbox",
        "limit_reached" | "resource_limit_exceeded" => {
            "; list sandboxes with `pinfold ps` and free capacity with `pinfold stop`"
        }
        "unknown_token" => "; list tokens with `pinfold token ls`",
        _ => "",
    };
    format!("{error:#}{}{advice}", why(error))
}

/// Why a start failed, from the error's details.
fn why(error: &anyhow::Error) -> String {
    match error.downcast_ref::<BackendError>() {
        Some(BackendError::Refused { detail, .. }) => {
            let why = detail.details.get("why").and_then(|why| why.as_str()).map(str::to_owned);
            in_brackets(why.as_ref())
        }
        _ => String::new(),
    }
}

const BAD_INPUT: &str = "bad_input";

/// The stable error code, the same with and without a server.
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
            Failure::NoThreads { .. } => "no_threads",
            Failure::NoImage { .. } | Failure::BadField { .. } => BAD_INPUT,
        };
        return Some(code.to_owned());
    }
    if let Some(error) = error.downcast_ref::<BackendError>() {
        return Some(error.code().map_or_else(|| "unreachable".to_owned(), |code| wire_name(&code)));
    }
    if let Some(ClientError::BadUrl { .. } | ClientError::BadUrlPart { .. }) = error.downcast_ref() {
        return Some(BAD_INPUT.to_owned());
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
