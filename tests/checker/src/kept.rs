//! Nothing that was acknowledged may be lost: sandboxes, outcomes, output, ends, and what a key stands for.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{Answer, Api, Broken, Complaint, Execution, Promises, Wish};

const ANSWER: Duration = Duration::from_secs(30);
const FINAL: [&str; 3] = ["completed", "failed", "terminated"];
const ENDED: [&str; 5] = ["exited", "failed", "cancelled", "timed_out", "lost"];

/// Asked when everything has ended.
#[must_use]
pub fn nothing_is_lost(api: &Api, promises: &Promises) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let is_forgotten = |id: &str| promises.forgotten.contains(id);
    let known = promises.sandboxes.iter().map(|sandbox| sandbox.id.as_str());
    for id in known.chain(promises.deleted.iter().map(String::as_str)) {
        let told = api.get(&format!("/api/sandbox/{id}"), ANSWER);
        complaints.extend(match told {
            Ok(answer) if answer.status == 404 && is_forgotten(id) => None,
            Ok(answer) if answer.status == 200 => ended_with_proof(id, &answer.json()),
            other => Some(format!("{id} was acknowledged, and is not known: {}", shown(&other))),
        });
    }
    for execution in &promises.executions {
        let told = api.get(&format!("/api/executions/{}", execution.id), ANSWER);
        complaints.extend(match told {
            Ok(answer) if answer.status == 404 && is_forgotten(&execution.sandbox) => None,
            Ok(answer) if answer.status == 200 => kept_its_outcome(api, execution, &answer.json()),
            other => Some(format!("{} was acknowledged, and is not known: {}", execution.id, shown(&other))),
        });
    }
    complaints.into_iter().map(|text| Complaint::new(Broken::Lost, text)).collect()
}

fn ended_with_proof(id: &str, sandbox: &Value) -> Option<String> {
    let state = sandbox["status"]["state"].as_str().unwrap_or_default();
    if !FINAL.contains(&state) {
        return Some(format!("{id} was ended, and is {state}"));
    }
    if sandbox["cause"].is_null() {
        return Some(format!("{id} has ended without a cause"));
    }
    let checks = sandbox["receipt"]["checks"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_proof = !checks.is_empty() && checks.iter().all(|check| check["result"] == json!("absent"));
    (!is_proof).then(|| format!("{id} has a receipt that proves nothing: {}", sandbox["receipt"]))
}

fn kept_its_outcome(api: &Api, execution: &Execution, told: &Value) -> Option<String> {
    let Execution { id, command, exit_code, .. } = execution;
    let state = told["state"].as_str().unwrap_or_default();
    if !ENDED.contains(&state) || told["cause"].is_null() {
        return Some(format!("{id} has no outcome: {told}"));
    }
    let code = told["exit_code"].as_i64();
    if exit_code.is_some_and(|promised| promised != code) {
        return Some(format!("{id} was told to have ended with {exit_code:?}: {told}"));
    }
    if state == "exited" && code != Some(command.exits_with) {
        return Some(format!("{id} was to exit with {}: {told}", command.exits_with));
    }
    let output = api.get(&format!("/api/executions/{id}/output?after=0"), ANSWER);
    let page = match output {
        Ok(answer) if answer.status == 200 => answer.json(),
        other => return Some(format!("the output of {id} cannot be read: {}", shown(&other))),
    };
    if page["ended"] != json!(true) {
        return Some(format!("the output of {id} has no end: {page}"));
    }
    let written: String =
        page["events"].as_array().into_iter().flatten().filter_map(|event| event["text"].as_str()).collect();
    // What came to its own end has said all it had to say.
    (state == "exited" && !written.contains(&command.says))
        .then(|| format!("{id} said `{}`, and this can be read: {page}", command.says))
}

/// The same key gives the same sandbox. Sandboxes that come of wishes without an answer are added to what is known.
#[must_use]
pub fn keys_hold(api: &Api, promises: &mut Promises) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for sandbox in &promises.sandboxes {
        if promises.forgotten.contains(&sandbox.id) {
            continue;
        }
        let told = again(api, &sandbox.wish);
        if told.as_ref().ok().and_then(sandbox_of).as_deref() != Some(&sandbox.id) {
            let text = format!("the key of {} gives another answer now: {}", sandbox.id, shown(&told));
            complaints.push(Complaint::new(Broken::Lost, text));
        }
    }
    for wish in std::mem::take(&mut promises.unanswered) {
        match again(api, &wish) {
            Ok(answer) => {
                if let Some(id) = sandbox_of(&answer) {
                    promises.sandboxes.push(crate::Sandbox { id, wish });
                } else if answer.status >= 500 {
                    let text = format!("a wish cannot be asked for again: {}", shown(&Ok(answer)));
                    complaints.push(Complaint::new(Broken::Lost, text));
                }
            }
            Err(error) => complaints.push(Complaint::new(Broken::Lost, format!("no answer: {error}"))),
        }
    }
    complaints
}

fn again(api: &Api, wish: &Wish) -> std::io::Result<Answer> {
    api.post(&format!("{}?wait=0", wish.path), Some(&wish.key), wish.what.clone(), ANSWER)
}

/// The sandbox that an answer is about, good or bad.
fn sandbox_of(answer: &Answer) -> Option<String> {
    let places = ["/sandbox_id", "/id", "/error/details/sandbox_id"];
    places.iter().find_map(|place| answer.text(place))
}

fn shown(told: &std::io::Result<Answer>) -> String {
    match told {
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
        assert_eq!(ended_with_proof("sbx_a", &ended("absent")), None);
        assert!(ended_with_proof("sbx_a", &ended("unknown")).is_some());
        assert!(
            ended_with_proof("sbx_a", &json!({ "status": { "state": "terminated" }, "cause": "idle" }))
                .is_some()
        );
    }

    #[test]
    fn what_is_still_there_has_not_ended() {
        let mut sandbox = ended("absent");
        sandbox["status"]["state"] = json!("ready");

        assert!(ended_with_proof("sbx_a", &sandbox).is_some());
    }
}
