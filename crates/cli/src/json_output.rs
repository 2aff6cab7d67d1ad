//! JSON documents that commands print in addition to those of the API. Their fields are a stable interface.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinfold_api::{Attestation, Cause, Output, Receipt, ResourceUsage};
use pinfold_lifecycle::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::stdout;
use crate::table::escape_control;

/// Formats a time as RFC 3339 in UTC.
pub(crate) fn rfc3339_utc(at: Timestamp) -> String {
    pinfold_api::rfc3339(at.0)
}

/// Parses an RFC 3339 time into milliseconds since the epoch.
pub(crate) fn ms_of(time: &str) -> Option<i64> {
    time.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}

/// Milliseconds between two times, if both are known.
pub(crate) fn between(from: Option<&str>, to: Option<&str>) -> Option<u64> {
    let (from, to) = (ms_of(from?)?, ms_of(to?)?);
    Some(u64::try_from(to - from).unwrap_or(0))
}

/// The name of a state or cause in JSON.
pub(crate) fn wire_name(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(wire_name)) => wire_name,
        Ok(other) => other.to_string(),
        Err(error) => error.to_string(),
    }
}

pub(crate) fn error(code: &str, message: &str) -> Value {
    json!({ "error": { "code": code, "message": message } })
}

pub(crate) fn print(document: &impl Serialize) -> anyhow::Result<()> {
    stdout::print(format!("{}\n", serde_json::to_string_pretty(document)?).as_bytes()).map(drop)
}

/// A completed execution.
#[derive(Serialize)]
pub(crate) struct ExecutionReport {
    pub(crate) sandbox_id: String,
    pub(crate) execution_id: String,
    pub(crate) exit_code: Option<i32>,
    pub(crate) cause: Cause,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) detail: Option<String>,
    #[serde(flatten)]
    pub(crate) output: Output,
    pub(crate) usage: Option<ResourceUsage>,
    pub(crate) timings: Timings,
    /// None while the sandbox runs.
    pub(crate) receipt: Option<Receipt>,
}

/// Each stream as text, or as base64 where it is not UTF-8.
pub(crate) fn output(stdout: Vec<u8>, stderr: Vec<u8>, lost_bytes: u64) -> Output {
    let (stdout, stdout_base64) = text_or_base64(stdout);
    let (stderr, stderr_base64) = text_or_base64(stderr);
    Output { stdout, stdout_base64, stderr, stderr_base64, lost_bytes }
}

fn text_or_base64(bytes: Vec<u8>) -> (Option<String>, Option<String>) {
    match String::from_utf8(bytes) {
        Ok(text) => (Some(text), None),
        Err(error) => (None, Some(STANDARD.encode(error.as_bytes()))),
    }
}

/// The bytes of an output event.
pub(crate) fn bytes_of(text: Option<String>, base64: Option<String>) -> anyhow::Result<Vec<u8>> {
    match (text, base64) {
        (Some(text), _) => Ok(text.into_bytes()),
        (None, Some(encoded)) => Ok(STANDARD.decode(encoded)?),
        (None, None) => Ok(Vec::new()),
    }
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Durations of the phases of an execution. None: the phase did not happen, or is not over.
#[derive(Serialize, Default)]
pub(crate) struct Timings {
    /// From the create request to the passed probes.
    pub(crate) ready_ms: Option<u64>,
    /// From the create request, or for an existing sandbox from the exec request, to the first output.
    pub(crate) first_output_ms: Option<u64>,
    /// From the command's start to its end.
    pub(crate) run_ms: Option<u64>,
    /// From the command's end to the proof that the sandbox is gone.
    pub(crate) gone_ms: Option<u64>,
    /// From the request to the end of the last phase.
    pub(crate) total_ms: Option<u64>,
}

/// A receipt in one line.
pub(crate) fn receipt_summary(receipt: &Receipt) -> String {
    let Receipt { sandbox_id, generation, cause, verified_at, attested, .. } = receipt;
    let text = format!(
        "{sandbox_id} is gone: {}, generation {generation}, verified {verified_at}",
        wire_name(cause)
    );
    match attested {
        Some(Attestation { by, reason, .. }) => {
            format!("{text}, attested by {}: {}", escape_control(by), escape_control(reason))
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_round_trips_through_rfc3339_with_milliseconds() {
        assert_eq!(rfc3339_utc(Timestamp(1_763_253_584_007)), "2025-11-16T00:39:44.007Z");
        assert_eq!(ms_of("2025-11-16T00:39:44.007Z"), Some(1_763_253_584_007));
        assert_eq!(between(Some("2025-11-16T00:39:44.007Z"), Some("2025-11-16T00:39:45Z")), Some(993));
    }

    #[test]
    fn output_that_is_not_utf8_is_base64() {
        let document = serde_json::to_value(output(vec![0xff, 0], b"fine".to_vec(), 0)).unwrap();

        assert_eq!(document, json!({ "stdout_base64": "/wA=", "stderr": "fine" }));
    }

    #[test]
    fn cause_is_named_as_in_json() {
        assert_eq!(wire_name(&Cause::StoppedByUser), "stopped_by_user");
    }
}
