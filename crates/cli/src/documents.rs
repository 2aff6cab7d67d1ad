//! The JSON documents that commands print: their fields are a promise to whoever reads them.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinfold_lifecycle::{
    Attestation, Cause, ExecutionId, Generation, Lease, Limits, Receipt, ReceiptCheck, SandboxId, State,
    Timestamp, Used, Verdict, status,
};
use pinfold_store::{Row, Stored, Unreadable};
use serde::Serialize;
use serde_json::{Value, json};

use crate::table::harmless;

/// A moment as RFC 3339 in UTC.
pub(crate) fn moment(at: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(at.0).map_or_else(|_| at.0.to_string(), |at| format!("{at:.3}"))
}

/// The name under which a state or a cause is stored.
pub(crate) fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        Ok(other) => other.to_string(),
        Err(error) => error.to_string(),
    }
}

pub(crate) fn error(code: &str, message: &str) -> Value {
    json!({ "error": { "code": code, "message": message } })
}

pub(crate) fn print(document: &impl Serialize) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string_pretty(document)?);
    Ok(())
}

/// One command that has ended.
#[derive(Serialize)]
pub(crate) struct ExecutionDocument {
    pub(crate) sandbox_id: SandboxId,
    pub(crate) execution_id: ExecutionId,
    pub(crate) exit_code: Option<i32>,
    pub(crate) cause: Cause,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) detail: Option<String>,
    #[serde(flatten)]
    pub(crate) output: OutputDocument,
    pub(crate) usage: Option<Used>,
    pub(crate) timings: Timings,
    /// None while its sandbox lives.
    pub(crate) receipt: Option<ReceiptDocument>,
}

/// Each stream as text, or as base64 where it is none.
#[derive(Serialize)]
pub(crate) struct OutputDocument {
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_base64: Option<String>,
}

impl OutputDocument {
    pub(crate) fn of(stdout: Vec<u8>, stderr: Vec<u8>) -> Self {
        let (stdout, stdout_base64) = text_or_base64(stdout);
        let (stderr, stderr_base64) = text_or_base64(stderr);
        Self { stdout, stdout_base64, stderr, stderr_base64 }
    }
}

fn text_or_base64(bytes: Vec<u8>) -> (Option<String>, Option<String>) {
    match String::from_utf8(bytes) {
        Ok(text) => (Some(text), None),
        Err(error) => (None, Some(STANDARD.encode(error.as_bytes()))),
    }
}

/// How long things took. None: it did not come to that, or it is not over.
#[derive(Serialize, Default)]
pub(crate) struct Timings {
    /// From the wish for the sandbox to its passed probes.
    pub(crate) ready_ms: Option<u64>,
    /// From the wish for the sandbox, or for the execution where that was there before, to the first output.
    pub(crate) first_output_ms: Option<u64>,
    /// From the command's start to its end.
    pub(crate) run_ms: Option<u64>,
    /// From the command's end to the proof that the sandbox is gone.
    pub(crate) gone_ms: Option<u64>,
    /// From the wish to the end of all that.
    pub(crate) total_ms: Option<u64>,
}

/// What a stop proves.
#[derive(Serialize)]
pub(crate) struct ReceiptDocument {
    sandbox_id: SandboxId,
    generation: Generation,
    pub(crate) cause: Cause,
    verified_at: String,
    pub(crate) checks: Vec<ReceiptCheck>,
    freed_bytes: u64,
    usage: Option<Used>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attested: Option<AttestationDocument>,
}

#[derive(Serialize)]
struct AttestationDocument {
    by: String,
    reason: String,
    at: String,
}

impl ReceiptDocument {
    pub(crate) fn of(sandbox_id: SandboxId, cause: Cause, receipt: &Receipt) -> Self {
        let attested = |it: &Attestation| AttestationDocument {
            by: it.by.clone(),
            reason: it.reason.clone(),
            at: moment(it.at),
        };
        Self {
            sandbox_id,
            generation: receipt.generation,
            cause,
            verified_at: moment(receipt.verified_at),
            checks: receipt.checks.clone(),
            freed_bytes: receipt.freed_bytes,
            usage: receipt.used,
            attested: receipt.attested.as_ref().map(attested),
        }
    }
}

impl fmt::Display for ReceiptDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sandbox_id, generation, cause, verified_at, .. } = self;
        write!(
            f,
            "{sandbox_id} is gone: {}, generation {}, verified {verified_at}",
            word(cause),
            generation.0
        )?;
        match &self.attested {
            Some(AttestationDocument { by, reason, .. }) => {
                write!(f, ", on the word of {}: {}", harmless(by), harmless(reason))
            }
            None => Ok(()),
        }
    }
}

/// One sandbox as lists show it.
#[derive(Serialize)]
pub(crate) struct SandboxDocument {
    pub(crate) id: SandboxId,
    pub(crate) name: Option<String>,
    pub(crate) status: State,
    pub(crate) cause: Option<Cause>,
    pub(crate) message: String,
    pub(crate) created_at: Option<String>,
    #[serde(skip)]
    pub(crate) age_ms: Option<u64>,
    pub(crate) age_minutes: Option<u64>,
    pub(crate) expires_at: Option<String>,
    pub(crate) verified_at: Option<String>,
    pub(crate) generation: Generation,
    pub(crate) profile: String,
    pub(crate) agent_type: Option<String>,
    pub(crate) image: String,
    pub(crate) task_id: Option<String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) executions: usize,
    pub(crate) limits: Limits,
    pub(crate) flags: Vec<&'static str>,
}

impl SandboxDocument {
    pub(crate) fn of(row: &Row, now: Timestamp) -> Self {
        match row {
            Row::Readable(stored) => Self::of_readable(stored, now),
            Row::Unreadable(row) => Self::of_unreadable(row),
        }
    }

    fn of_readable(stored: &Stored, now: Timestamp) -> Self {
        let Stored { sandbox, spec, policy, .. } = stored;
        let seen = status(sandbox, now, policy);
        let age_ms = now.ms_since(sandbox.created_at);
        Self {
            id: sandbox.id,
            name: spec.name.clone(),
            status: seen.state,
            cause: seen.cause,
            message: seen.message,
            created_at: Some(moment(sandbox.created_at)),
            age_ms: Some(age_ms),
            age_minutes: Some(age_ms / 60_000),
            expires_at: Some(moment(sandbox.expires_at)),
            verified_at: seen.verified_at.map(moment),
            generation: sandbox.generation(),
            profile: spec.agent_type.clone().unwrap_or_else(|| "default".into()),
            agent_type: spec.agent_type.clone(),
            image: spec.image.clone().unwrap_or_else(|| "host".into()),
            task_id: spec.task_id.clone(),
            labels: spec.labels.clone(),
            executions: sandbox.executions.len(),
            limits: spec.limits,
            flags: flags(stored),
        }
    }

    /// Its body may be there, so it is in sight, with the little that is known.
    fn of_unreadable(row: &Unreadable) -> Self {
        Self {
            id: row.id,
            name: None,
            status: State::Unknown,
            cause: None,
            message: format!("its record cannot be read: {}", row.why),
            created_at: None,
            age_ms: None,
            age_minutes: None,
            expires_at: None,
            verified_at: None,
            generation: row.generation,
            profile: "unknown".into(),
            agent_type: None,
            image: "unknown".into(),
            task_id: None,
            labels: BTreeMap::new(),
            executions: 0,
            limits: Limits::default(),
            flags: vec!["unreadable"],
        }
    }
}

/// What somebody who looks over a list should not miss.
fn flags(stored: &Stored) -> Vec<&'static str> {
    let Stored { sandbox, spec, policy, .. } = stored;
    let unhealthy = matches!(&sandbox.lease, Lease::Live(live) if matches!(live.health.verdict, Verdict::Unhealthy { .. }));
    let flags = [
        ("critical", spec.critical),
        // It ends with the process that made it.
        ("attached", policy.ends_with_owner && !sandbox.is_settled()),
        ("unhealthy", unhealthy),
        ("quarantined", matches!(sandbox.lease, Lease::Quarantined { .. })),
        ("stray", sandbox.strays > 0),
    ];
    flags.into_iter().filter_map(|(flag, holds)| holds.then_some(flag)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_in_utc_with_its_milliseconds() {
        assert_eq!(moment(Timestamp(1_763_253_584_007)), "2025-11-16T00:39:44.007Z");
    }

    #[test]
    fn output_that_is_no_text_is_given_whole_and_otherwise() {
        let document = serde_json::to_value(OutputDocument::of(vec![0xff, 0], b"fine".to_vec())).unwrap();

        assert_eq!(document, json!({ "stdout_base64": "/wA=", "stderr": "fine" }));
    }

    #[test]
    fn causes_and_states_are_named_as_they_are_stored() {
        assert_eq!(word(&Cause::StoppedByUser), "stopped_by_user");
        assert_eq!(word(&State::Ready), "ready");
    }
}
