//! Durability checks: acknowledged sandboxes, outcomes, output, receipts and idempotency keys must not be lost.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{Answer, Api, CreateRequest, Execution, Promises, Violation, ViolationKind};

const ANSWER: Duration = Duration::from_secs(30);
const FINAL: [&str; 3] = ["completed", "failed", "terminated"];
const ENDED: [&str; 5] = ["exited", "failed", "cancelled", "timed_out", "lost"];

/// Run after every sandbox has ended.
#[must_use]
pub fn check_nothing_lost(api: &Api, promises: &Promises) -> Vec<Violation> {
    let mut violations = Vec::new();
    let is_forgotten = |id: &str| promises.forgotten.contains(id);
    let known = promises.sandboxes.iter().map(|sandbox| sandbox.id.as_str());
    for id in known.chain(promises.deleted.iter().map(String::as_str)) {
        let response = api.get(&format!("/api/sandbox/{id}"), ANSWER);
        violations.extend(match response {
            Ok(answer) if answer.status == 404 && is_forgotten(id) => None,
            Ok(answer) if answer.status == 200 => check_receipt(id, &answer.json()),
            other => Some(format!("{id} was acknowledged but is not known: {}", describe(&other))),
        });
    }
    for execution in &promises.executions {
        let response = api.get(&format!("/api/executions/{}", execution.id), ANSWER);
        violations.extend(match response {
            Ok(answer) if answer.status == 404 && is_forgotten(&execution.sandbox) => None,
            Ok(answer) if answer.status == 200 => check_outcome(api, execution, &answer.json()),
            other => {
                Some(format!("{} was acknowledged but is not known: {}", execution.id, describe(&other)))
            }
        });
    }
    violations.into_iter().map(|text| Violation::new(ViolationKind::Lost, text)).collect()
}

fn check_receipt(id: &str, sandbox: &Value) -> Option<String> {
    let state = sandbox["status"]["state"].as_str().unwrap_or_default();
    if !FINAL.contains(&state) {
        return Some(format!("{id} was ended but is {state}"));
    }
    if sandbox["cause"].is_null() {
        return Some(format!("{id} has ended without a cause"));
    }
    let checks = sandbox["receipt"]["checks"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_proof = !checks.is_empty() && checks.iter().all(|check| check["result"] == json!("absent"));
    (!is_proof).then(|| format!("{id} has a receipt that does not prove absence: {}", sandbox["receipt"]))
}

fn check_outcome(api: &Api, execution: &Execution, response: &Value) -> Option<String> {
    let Execution { id, command, exit_code, .. } = execution;
    let state = response["state"].as_str().unwrap_or_default();
    if !ENDED.contains(&state) || response["cause"].is_null() {
        return Some(format!("{id} has no outcome: {response}"));
    }
    let code = response["exit_code"].as_i64();
    if exit_code.is_some_and(|promised| promised != code) {
        return Some(format!("{id} was reported to have ended with {exit_code:?}: {response}"));
    }
    if state == "exited" && code != Some(command.exits_with) {
        return Some(format!("{id} was to exit with {}: {response}", command.exits_with));
    }
    let output = api.get(&format!("/api/executions/{id}/output?after=0"), ANSWER);
    let page = match output {
        Ok(answer) if answer.status == 200 => answer.json(),
        other => return Some(format!("the output of {id} cannot be read: {}", describe(&other))),
    };
    if page["ended"] != json!(true) {
        return Some(format!("the output of {id} has no end: {page}"));
    }
    let written: String =
        page["events"].as_array().into_iter().flatten().filter_map(|event| event["text"].as_str()).collect();
    // An execution that exited by itself has written all of its output.
    (state == "exited" && !written.contains(&command.says))
        .then(|| format!("{id} said `{}`, and this can be read: {page}", command.says))
}

/// The same key gives the same sandbox. Sandboxes created by requests that got no answer are added to `promises`.
#[must_use]
pub fn check_idempotency_keys(api: &Api, promises: &mut Promises) -> Vec<Violation> {
    let mut violations = Vec::new();
    for sandbox in &promises.sandboxes {
        if promises.forgotten.contains(&sandbox.id) {
            continue;
        }
        let response = repeat(api, &sandbox.request);
        if response.as_ref().ok().and_then(sandbox_of).as_deref() != Some(&sandbox.id) {
            let text = format!(
                "the idempotency key of {} gives another answer: {}",
                sandbox.id,
                describe(&response)
            );
            violations.push(Violation::new(ViolationKind::Lost, text));
        }
    }
    for request in std::mem::take(&mut promises.unanswered) {
        match repeat(api, &request) {
            Ok(answer) => {
                if let Some(id) = sandbox_of(&answer) {
                    promises.sandboxes.push(crate::Sandbox { id, request });
                } else if answer.status >= 500 {
                    let text = format!("a create request cannot be repeated: {}", describe(&Ok(answer)));
                    violations.push(Violation::new(ViolationKind::Lost, text));
                }
            }
            Err(error) => violations.push(Violation::new(ViolationKind::Lost, format!("no answer: {error}"))),
        }
    }
    violations
}

fn repeat(api: &Api, request: &CreateRequest) -> std::io::Result<Answer> {
    api.post(&format!("{}?wait=0", request.path), Some(&request.key), request.body.clone(), ANSWER)
}

/// The sandbox id in a response, whether success or error.
fn sandbox_of(answer: &Answer) -> Option<String> {
    let places = ["/sandbox_id", "/id", "/error/details/sandbox_id"];
    places.iter().find_map(|place| answer.text(place))
}

fn describe(response: &std::io::Result<Answer>) -> String {
    match response {
        Ok(answer) => format!("{} {}", answer.status, String::from_utf8_lossy(&answer.body)),
        Err(error) => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(result: &str) -> Value {
        let receipt = json!({ "checks": [{ "kind": "processes", "result": result }] });
        json!({ "status": { "state": "terminated" }, "cause": "stopped_by_user", "receipt": receipt })
    }

    #[test]
    fn only_a_receipt_with_nothing_but_absence_is_proof() {
        assert_eq!(check_receipt("sbx_a", &ended("absent")), None);
        assert!(check_receipt("sbx_a", &ended("unknown")).is_some());
        assert!(
            check_receipt("sbx_a", &json!({ "status": { "state": "terminated" }, "cause": "idle" }))
                .is_some()
        );
    }

    #[test]
    fn sandbox_without_a_final_state_has_not_ended() {
        let mut sandbox = ended("absent");
        sandbox["status"]["state"] = json!("ready");

        assert!(check_receipt("sbx_a", &sandbox).is_some());
    }
}
