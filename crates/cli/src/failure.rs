//! What can go wrong for whoever types a command: one table from failures to codes, and one place that tells.

use std::process::ExitCode;

use pinfold_engine::ApplyError;
use pinfold_lifecycle::profile::{BadLimit, UnknownProfile};
use pinfold_lifecycle::{Cause, Refusal, SandboxId};
use pinfold_store::{CreateError, OpenError, StoreError};

use crate::documents::{self, word};
use crate::exit;
use crate::settings::SettingsError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("there is no sandbox `{given}`; `pinfold ps --all` lists them")]
    Unknown { given: String },
    #[error("`{given}` may be any of {}", list(among))]
    Ambiguous { given: String, among: Vec<SandboxId> },
    #[error("{id} is gone; it ended with {}", word(cause))]
    Gone { id: SandboxId, cause: Cause },
    #[error("{id} is being ended with {}", word(cause))]
    Ending { id: SandboxId, cause: Cause },
    #[error("{id} did not become ready: {}{}", word(cause), in_brackets(why.as_ref()))]
    NotReady { id: SandboxId, cause: Cause, why: Option<String> },
    #[error("{id} could not be proven gone yet; it is looked at again by every command that runs")]
    NotProvenGone { id: SandboxId },
    #[error(
        "image: there is no `{given}` on this host; `pinfold image ls` lists them, and `host` is always there"
    )]
    NoImage { given: String },
    #[error("{field}: {why}")]
    BadField { field: &'static str, why: String },
}

fn list(ids: &[SandboxId]) -> String {
    ids.iter().map(SandboxId::to_string).collect::<Vec<_>>().join(", ")
}

pub(crate) fn in_brackets(detail: Option<&String>) -> String {
    detail.map(|detail| format!(" ({detail})")).unwrap_or_default()
}

/// Says it on standard error, or in a document on standard output.
pub(crate) fn report(error: &anyhow::Error, json: bool, failed: u8) -> ExitCode {
    let code = code_of(error);
    if json {
        println!("{}", documents::error(code, &format!("{error:#}")));
    } else {
        eprintln!("pinfold: {error:#}");
    }
    ExitCode::from(if code == BAD_INPUT { exit::BAD_INPUT } else { failed })
}

const BAD_INPUT: &str = "bad_input";

/// A stable name for what went wrong.
pub(crate) fn code_of(error: &anyhow::Error) -> &'static str {
    error.chain().find_map(code_of_one).unwrap_or("failed")
}

fn code_of_one(error: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        return Some(match failure {
            Failure::Unknown { .. } => "unknown_sandbox",
            Failure::Ambiguous { .. } => "ambiguous",
            Failure::Gone { .. } | Failure::Ending { .. } => "gone",
            Failure::NotReady { .. } => "start_failed",
            Failure::NotProvenGone { .. } => "not_proven_gone",
            Failure::NoImage { .. } | Failure::BadField { .. } => BAD_INPUT,
        });
    }
    if error.is::<BadLimit>() || error.is::<UnknownProfile>() || error.is::<SettingsError>() {
        return Some(BAD_INPUT);
    }
    if let Some(refusal) = error.downcast_ref::<Refusal>() {
        return Some(code_of_refusal(refusal));
    }
    match error.downcast_ref::<ApplyError>() {
        Some(ApplyError::Missing) => return Some("unknown_sandbox"),
        Some(ApplyError::Refused(refusal)) => return Some(code_of_refusal(refusal)),
        Some(ApplyError::Contended | ApplyError::Store(_) | ApplyError::Wait(_)) | None => {}
    }
    match error.downcast_ref::<CreateError>() {
        Some(CreateError::Scarce(_)) => return Some("limit_reached"),
        Some(CreateError::KeyReused { .. } | CreateError::Exists { .. } | CreateError::Store(_)) | None => {}
    }
    (error.is::<StoreError>() || error.is::<OpenError>()).then_some("store")
}

fn code_of_refusal(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Ending { .. } | Refusal::Ended { .. } => "gone",
        Refusal::Busy { .. } => "sandbox_busy",
        Refusal::NotQuarantined => "not_quarantined",
        Refusal::NoSuchExecution
        | Refusal::NoBody
        | Refusal::Leased
        | Refusal::Pooled
        | Refusal::NotPooled
        | Refusal::OtherShape
        | Refusal::NotProven
        | Refusal::NearItsEnd
        | Refusal::EndsWithOwner => "wrong_state",
    }
}
