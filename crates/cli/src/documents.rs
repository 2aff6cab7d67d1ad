//! The JSON documents that commands print beside those of the API: their fields are a promise to whoever reads them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinfold_api::{Attestation, Cause, Output, Receipt, Used};
use pinfold_lifecycle::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::stdout;
use crate::table::harmless;

/// A moment as RFC 3339 in UTC.
pub(crate) fn moment(at: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(at.0).map_or_else(|_| at.0.to_string(), |at| format!("{at:.3}"))
}

/// What a moment was in milliseconds.
pub(crate) fn ms_of(moment: &str) -> Option<i64> {
    moment.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}

/// How long from one moment to the other, where both are known.
pub(crate) fn between(from: Option<&str>, to: Option<&str>) -> Option<u64> {
    let (from, to) = (ms_of(from?)?, ms_of(to?)?);
    Some(u64::try_from(to - from).unwrap_or(0))
}

/// The name under which a state or a cause goes over the wire.
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
    stdout::print(format!("{}\n", serde_json::to_string_pretty(document)?).as_bytes()).map(drop)
}

/// One command that has ended.
#[derive(Serialize)]
pub(crate) struct ExecutionDocument {
    pub(crate) sandbox_id: String,
    pub(crate) execution_id: String,
    pub(crate) exit_code: Option<i32>,
    pub(crate) cause: Cause,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) detail: Option<String>,
    #[serde(flatten)]
    pub(crate) output: Output,
    pub(crate) usage: Option<Used>,
    pub(crate) timings: Timings,
    /// None while its sandbox lives.
    pub(crate) receipt: Option<Receipt>,
}

/// Each stream as text, or as base64 where it is none.
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

/// What an event carries.
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

/// What a stop proves, in one line for people.
pub(crate) fn told(receipt: &Receipt) -> String {
    let Receipt { sandbox_id, generation, cause, verified_at, attested, .. } = receipt;
    let said =
        format!("{sandbox_id} is gone: {}, generation {generation}, verified {verified_at}", word(cause));
    match attested {
        Some(Attestation { by, reason, .. }) => {
            format!("{said}, on the word of {}: {}", harmless(by), harmless(reason))
        }
        None => said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_in_utc_with_its_milliseconds_and_read_back() {
        assert_eq!(moment(Timestamp(1_763_253_584_007)), "2025-11-16T00:39:44.007Z");
        assert_eq!(ms_of("2025-11-16T00:39:44.007Z"), Some(1_763_253_584_007));
        assert_eq!(between(Some("2025-11-16T00:39:44.007Z"), Some("2025-11-16T00:39:45Z")), Some(993));
    }

    #[test]
    fn output_that_is_no_text_is_given_whole_and_otherwise() {
        let document = serde_json::to_value(output(vec![0xff, 0], b"fine".to_vec(), 0)).unwrap();

        assert_eq!(document, json!({ "stdout_base64": "/wA=", "stderr": "fine" }));
    }

    #[test]
    fn causes_are_named_as_they_go_over_the_wire() {
        assert_eq!(word(&Cause::StoppedByUser), "stopped_by_user");
    }
}
