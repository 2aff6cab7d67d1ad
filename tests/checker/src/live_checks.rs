//! Checks while sandboxes exist: listed sandboxes exist and work, existing resources belong to a row, and nothing
//! waits without a deadline.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::resources::UNNAMED;
use crate::{Api, Clock, Deadline, Kernel, Promises, Rows, Violation, ViolationKind};

const ANSWER: Duration = Duration::from_secs(15);
/// A deadline this far in the past is not being enforced.
const OVERDUE_MS: i64 = 5_000;
/// Deadlines further away than this are not waited for.
const LONGEST_WAIT_MS: u64 = 5_000;

/// Sandboxes reported as ready must run a command, and files written to them must be there.
#[must_use]
pub fn check_status_is_true(api: &Api, promises: &Promises) -> Vec<Violation> {
    let mut violations = Vec::new();
    let sandboxes = match api.get("/api/sandbox/list", ANSWER) {
        Ok(answer) if answer.is_good() => answer.json(),
        other => {
            return vec![Violation::new(
                ViolationKind::FalseStatus,
                format!("could not list sandboxes: {other:?}"),
            )];
        }
    };
    for sandbox in sandboxes.as_array().into_iter().flatten().filter(|sandbox| claims_to_work(sandbox)) {
        let id = sandbox["id"].as_str().unwrap_or_default();
        violations.extend(check_exec(api, id));
        for file in promises.files.iter().filter(|file| file.sandbox == id) {
            violations.extend(check_file(api, id, &file.path, &file.content));
        }
    }
    violations
}

fn claims_to_work(sandbox: &Value) -> bool {
    matches!(sandbox["status"].as_str(), Some("ready" | "running"))
}

fn check_exec(api: &Api, id: &str) -> Option<Violation> {
    let request = json!({ "command": ["true"], "timeout_ms": 10_000 });
    let response = api.post(&format!("/api/sandbox/{id}/exec?wait=12"), None, request, ANSWER);
    let works =
        response.as_ref().is_ok_and(|answer| answer.status == 200 && answer.json()["exit_code"] == json!(0));
    (!works && still_claims_to_work(api, id)).then(|| {
        let response = response.map(|answer| String::from_utf8_lossy(&answer.body).into_owned());
        Violation::new(
            ViolationKind::FalseStatus,
            format!("{id} is reported as ready but runs no command: {response:?}"),
        )
    })
}

fn check_file(api: &Api, id: &str, path: &str, content: &str) -> Option<Violation> {
    let response = api.get(&format!("/api/sandbox/{id}/files{path}"), ANSWER);
    let is_there =
        response.as_ref().is_ok_and(|answer| answer.is_good() && answer.body == content.as_bytes());
    (!is_there && still_claims_to_work(api, id)).then(|| {
        let response =
            response.map(|answer| (answer.status, String::from_utf8_lossy(&answer.body).into_owned()));
        Violation::new(
            ViolationKind::Lost,
            format!("{path} of {id} was acknowledged with `{content}`: {response:?}"),
        )
    })
}

fn still_claims_to_work(api: &Api, id: &str) -> bool {
    let response = api.get(&format!("/api/sandbox/{id}"), ANSWER);
    response.is_ok_and(|answer| matches!(answer.text("/status/state").as_deref(), Some("ready" | "running")))
}

/// Every resource belongs to one generation of a sandbox that is not proven gone, and every live sandbox has an
/// instance.
#[must_use]
pub fn check_resources_match_rows(kernel: &Kernel, data: &Path, server: i32) -> Vec<Violation> {
    let (resources, instances, rows) =
        match (kernel.resources(Some(server)), kernel.instances(), Rows::read(data)) {
            (Ok(resources), Ok(instances), Ok(rows)) => (resources, instances, rows),
            (resources, instances, rows) => {
                let text = format!(
                    "could not read the host or the store: {:?} {:?} {:?}",
                    resources.err(),
                    instances.err(),
                    rows.err()
                );
                return vec![Violation::new(ViolationKind::FalseStatus, text)];
            }
        };
    let mut violations = Vec::new();
    let present: BTreeMap<&str, &crate::Row> =
        rows.sandboxes.iter().filter(|row| !row.is_settled).map(|row| (row.id.as_str(), row)).collect();
    for (name, resources) in &resources {
        if name == UNNAMED {
            let strays = resources.iter().filter(|resource| !resource.starts_with("cgroup: "));
            violations.extend(strays.map(|resource| {
                Violation::new(ViolationKind::Leak, format!("resource without an instance name: {resource}"))
            }));
        } else if !present.contains_key(name.split('.').nth(1).unwrap_or_default()) {
            violations.push(Violation::new(
                ViolationKind::Leak,
                format!("no row accounts for {name}: {resources:?}"),
            ));
        }
    }
    for (id, row) in &present {
        let own: Vec<_> = instances.iter().filter(|instance| instance.sandbox() == *id).collect();
        if own.len() > 1 {
            violations.push(Violation::new(
                ViolationKind::FalseStatus,
                format!("{id} has more than one instance: {own:?}"),
            ));
        }
        let is_live = row.state.pointer("/lease/live").is_some();
        if is_live && !own.iter().any(|instance| instance.name == row.instance_name()) {
            violations.push(Violation::new(
                ViolationKind::FalseStatus,
                format!("{} is live by its row but has no process", row.instance_name()),
            ));
        }
    }
    for open in rows.open_executions.iter().filter(|open| open.is_running) {
        // The state of an unhealthy instance is unknown, and the server does not claim otherwise.
        let Some(row) = present.get(open.sandbox.as_str()).filter(|row| is_healthy(row)) else { continue };
        let processes =
            resources.get(&row.instance_name()).into_iter().flatten().filter(|it| it.starts_with("process "));
        // The keeper counts as one process.
        if processes.count() <= 1 {
            let text =
                format!("{} of {} runs by its row, and no process of it is there", open.id, open.sandbox);
            violations.push(Violation::new(ViolationKind::FalseStatus, text));
        }
    }
    violations
}

/// Waits for the earliest deadline and checks that the server enforced it.
#[must_use]
pub fn check_deadlines(data: &Path, clock: Clock, deadline: Deadline) -> Vec<Violation> {
    let earliest = Rows::read(data).ok().and_then(|rows| {
        let open = rows.sandboxes.into_iter().filter(|row| !row.is_settled);
        open.filter_map(|row| Some((row.next_deadline?, row.id))).min()
    });
    let Some((at, id)) = earliest else { return Vec::new() };
    let wait_ms = u64::try_from(at - clock.now_ms()).unwrap_or(0).min(LONGEST_WAIT_MS);
    if wait_ms == LONGEST_WAIT_MS {
        return Vec::new();
    }
    std::thread::sleep(Duration::from_millis(wait_ms));
    deadline.poll_until_empty(|| match Rows::read(data) {
        Ok(rows) => {
            let still = |row: &&crate::Row| !row.is_settled && row.id == id && row.next_deadline == Some(at);
            let left = rows.sandboxes.iter().find(still);
            let response = left.map(|row| format!("the deadline of {id} is not enforced: {}", row.state));
            response.map(|text| Violation::new(ViolationKind::Stuck, text)).into_iter().collect()
        }
        Err(error) => vec![Violation::new(ViolationKind::Stuck, error.to_string())],
    })
}

fn is_healthy(row: &crate::Row) -> bool {
    let health = &row.state["lease"]["live"]["health"];
    health["verdict"] == json!("healthy") && health["inconclusive_since"].is_null()
}

/// Every row that is not final has a deadline, and the deadline is enforced.
#[must_use]
pub fn check_nothing_stuck(data: &Path, clock: Clock) -> Vec<Violation> {
    let rows = match Rows::read(data) {
        Ok(rows) => rows,
        Err(error) => return vec![Violation::new(ViolationKind::Stuck, error.to_string())],
    };
    let now_ms = clock.now_ms();
    let open = rows.sandboxes.iter().filter(|row| !row.is_settled);
    open.filter_map(|row| match row.next_deadline {
        None => Some(Violation::new(
            ViolationKind::Stuck,
            format!("{} waits without a deadline: {}", row.id, row.state),
        )),
        Some(at) if at < now_ms - OVERDUE_MS => {
            let text = format!("{} is overdue by {} ms: {}", row.id, now_ms - at, row.state);
            Some(Violation::new(ViolationKind::Stuck, text))
        }
        Some(_) => None,
    })
    .collect()
}
