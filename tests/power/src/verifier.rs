//! Verifies a server that was started on the disk as the power cut left it: first its own recovery, then that
//! everything acknowledged is still known after all sandboxes have ended.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use pinfold_checker::{
    Answer, Api, Clock, Deadline, Kernel, Rows, Violation, check_idempotency_keys, check_nothing_left,
    check_nothing_lost, check_nothing_outlives_server, check_nothing_stuck, check_resources_match_rows,
    check_status_is_true, check_totals,
};
use serde_json::json;

use crate::acknowledged::{Acknowledged, Artifact};
use crate::server::Server;

const ANSWER: Duration = Duration::from_secs(40);
/// How long recovery may take.
const SETTLE: Duration = Duration::from_secs(30);
const END_ALL: Duration = Duration::from_secs(60);
const AFTER_THE_SERVER: Duration = Duration::from_secs(5);
const FINAL: [&str; 3] = ["completed", "failed", "terminated"];

pub(crate) struct Verifier {
    kernel: Kernel,
    clock: Clock,
    data: PathBuf,
    acknowledged: Acknowledged,
}

impl Verifier {
    pub(crate) fn of(data: &Path, acknowledged: Acknowledged) -> Result<Self> {
        let rows = Rows::read(data)?;
        // This process is the only other one.
        let kernel = Kernel::new(data, &rows.instance, &[i32::try_from(std::process::id())?]);
        Ok(Self { kernel, clock: Clock::of(data)?, data: data.to_owned(), acknowledged })
    }

    /// Returns the violations of the first failing check: later ones would only follow from it.
    pub(crate) fn all(&mut self, server: &Server) -> Vec<String> {
        let checks: [fn(&mut Self, &Server) -> Vec<String>; 12] = [
            |verifier, _| verifier.check_store_integrity(),
            |verifier, server| in_time(|| verifier.check_ended_by_restart(&server.api)),
            |verifier, _| describe(in_time(|| check_nothing_stuck(&verifier.data, verifier.clock))),
            |verifier, server| {
                describe(in_time(|| {
                    check_resources_match_rows(&verifier.kernel, &verifier.data, server.pid())
                }))
            },
            |verifier, server| {
                describe(in_time(|| check_status_is_true(&server.api, &verifier.acknowledged.promises)))
            },
            |verifier, server| {
                describe(check_idempotency_keys(&server.api, &mut verifier.acknowledged.promises))
            },
            |_, server| check_new_sandbox_works(&server.api),
            |verifier, server| {
                end_all(&server.api);
                describe(in_time(|| check_nothing_left(&verifier.kernel, &verifier.data, server.pid())))
            },
            |verifier, server| describe(in_time(|| check_totals(&server.api, &verifier.data))),
            |verifier, server| describe(check_nothing_lost(&server.api, &verifier.acknowledged.promises)),
            |verifier, server| verifier.check_receipts_and_artifacts(&server.api),
            |verifier, server| {
                describe(check_idempotency_keys(&server.api, &mut verifier.acknowledged.promises))
            },
        ];
        let found = checks.iter().map(|check| check(self, server)).find(|found| !found.is_empty());
        found.unwrap_or_default()
    }

    /// Checks after a clean server exit.
    pub(crate) fn after(&self, server: Server) -> Result<Vec<String>> {
        let status = server.end()?;
        ensure!(status.success(), "the server ended with {status}");
        let deadline = Deadline::after(AFTER_THE_SERVER);
        Ok(describe(deadline.poll_until_empty(|| check_nothing_outlives_server(&self.kernel, &self.data))))
    }

    fn check_store_integrity(&self) -> Vec<String> {
        match Rows::damage(&self.data) {
            Ok(None) => Vec::new(),
            other => vec![format!("the store is damaged: {other:?}")],
        }
    }

    /// Sandboxes that were ready have ended without a request, with the right cause.
    fn check_ended_by_restart(&self, api: &Api) -> Vec<String> {
        let Acknowledged { ready, ending, promises, .. } = &self.acknowledged;
        let violation = |id: &String| {
            let sandbox = match api.get(&format!("/api/sandbox/{id}"), ANSWER) {
                Ok(answer) if answer.status == 404 && promises.forgotten.contains(id) => return None,
                Ok(answer) if answer.status == 200 => answer.json(),
                other => return Some(format!("lost: {id} was ready, and is not known: {other:?}")),
            };
            let state = sandbox["status"]["state"].as_str().unwrap_or_default();
            let cause = sandbox["cause"].as_str().unwrap_or_default();
            // The disk may have lost the last removal of a forgotten sandbox: then it is an orphan.
            let came_back = cause == "orphan" && promises.forgotten.contains(id);
            let was_asked = cause == "stopped_by_user" && ending.contains(id);
            let is_so = cause == "host_restarted" || was_asked || came_back;
            (!FINAL.contains(&state) || !is_so).then(|| {
                format!("false status: {id} went with the power, and is {state} by {cause:?}: {sandbox}")
            })
        };
        ready.iter().filter_map(violation).collect()
    }

    /// Receipts and artifacts are unchanged.
    fn check_receipts_and_artifacts(&self, api: &Api) -> Vec<String> {
        let Acknowledged { receipts, artifacts, promises, .. } = &self.acknowledged;
        let is_forgotten = |id: &String| promises.forgotten.contains(id);
        let mut violations = Vec::new();
        for (id, receipt) in receipts.iter().filter(|(id, _)| !is_forgotten(id)) {
            let again = api.delete(&format!("/api/sandbox/{id}?wait=0"), ANSWER);
            if !again.as_ref().is_ok_and(|answer| answer.status == 200 && answer.json() == *receipt) {
                violations.push(format!("lost: the receipt of {id} was {receipt}, and is {again:?}"));
            }
        }
        for Artifact { execution, sandbox, name, content } in artifacts {
            let response = api.get(&format!("/api/executions/{execution}/artifacts/{name}"), ANSWER);
            let is_same =
                response.as_ref().is_ok_and(|answer| answer.is_good() && answer.body == content.as_bytes());
            if !is_same && !is_forgotten(sandbox) {
                violations
                    .push(format!("lost: {name} of {execution} was kept with `{content}`: {response:?}"));
            }
        }
        violations
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Acknowledged { promises, ready, receipts, artifacts, .. } = &self.acknowledged;
        write!(
            f,
            "{} sandboxes ({} of them ready), {} executions, {} receipts, {} artifacts",
            promises.sandboxes.len(),
            ready.len(),
            promises.executions.len(),
            receipts.len(),
            artifacts.len()
        )
    }
}

fn in_time<T>(check: impl FnMut() -> Vec<T>) -> Vec<T> {
    Deadline::after(SETTLE).poll_until_empty(check)
}

fn describe(violations: Vec<Violation>) -> Vec<String> {
    violations.iter().map(ToString::to_string).collect()
}

/// A new sandbox works from create to receipt.
fn check_new_sandbox_works(api: &Api) -> Vec<String> {
    let failed =
        |body: &str, response: std::io::Result<Answer>| vec![format!("stuck: no {body}: {response:?}")];
    let made = api.post("/api/sandbox?wait=30", None, json!({ "limits": { "memory_mb": 64 } }), ANSWER);
    let Some(id) = made.as_ref().ok().and_then(|answer| answer.text("/id")) else {
        return failed("sandbox is created", made);
    };
    let ran = api.post(
        &format!("/api/sandbox/{id}/exec?wait=30"),
        None,
        json!({ "command": ["sh", "-c", "exit 3"] }),
        ANSWER,
    );
    if !ran.as_ref().is_ok_and(|answer| answer.json()["exit_code"] == json!(3)) {
        return failed("command is run", ran);
    }
    let ended = api.delete(&format!("/api/sandbox/{id}?wait=30"), ANSWER);
    if !ended.as_ref().is_ok_and(|answer| answer.status == 200) {
        return failed("sandbox is ended", ended);
    }
    Vec::new()
}

/// Deletes all listed sandboxes until none is left or the time is up. The checks report what is left.
fn end_all(api: &Api) {
    Deadline::after(END_ALL).poll(|| {
        let ids = list_sandboxes(api)?;
        for id in &ids {
            let _checked_later = api.delete(&format!("/api/sandbox/{id}?wait=30"), ANSWER);
        }
        ids.is_empty().then_some(())
    });
}

fn list_sandboxes(api: &Api) -> Option<Vec<String>> {
    let list = api.get("/api/sandbox/list", ANSWER).ok().filter(Answer::is_good)?.json();
    Some(list.as_array()?.iter().filter_map(|sandbox| Some(sandbox["id"].as_str()?.to_owned())).collect())
}
