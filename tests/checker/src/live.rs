//! What must hold while sandboxes are there: what is listed is there and works, what is there is listed, and nothing
//! waits for nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::kernel::NO_MARK;
use crate::{Api, Broken, Clock, Complaint, Kernel, Patience, Promises, Rows};

const ANSWER: Duration = Duration::from_secs(15);
/// A deadline that is past by more is one that nobody enforces.
const PAST_MS: i64 = 5_000;
/// One that is further away is not waited for.
const LONGEST_WAIT_MS: u64 = 5_000;

/// Sandboxes that are said to work must work, and what was put into them must be in them.
#[must_use]
pub fn nothing_is_a_lie(api: &Api, promises: &Promises) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let sandboxes = match api.get("/api/sandbox/list", ANSWER) {
        Ok(answer) if answer.is_good() => answer.json(),
        other => return vec![Complaint::new(Broken::Lie, format!("the list is not told: {other:?}"))],
    };
    for sandbox in sandboxes.as_array().into_iter().flatten().filter(|sandbox| claims_to_work(sandbox)) {
        let id = sandbox["id"].as_str().unwrap_or_default();
        complaints.extend(works(api, id));
        for file in promises.files.iter().filter(|file| file.sandbox == id) {
            complaints.extend(has(api, id, &file.path, &file.content));
        }
    }
    complaints
}

fn claims_to_work(sandbox: &Value) -> bool {
    matches!(sandbox["status"].as_str(), Some("ready" | "running"))
}

fn works(api: &Api, id: &str) -> Option<Complaint> {
    let wish = json!({ "command": ["true"], "timeout_ms": 10_000 });
    let told = api.post(&format!("/api/sandbox/{id}/exec?wait=12"), None, wish, ANSWER);
    let works =
        told.as_ref().is_ok_and(|answer| answer.status == 200 && answer.json()["exit_code"] == json!(0));
    (!works && still_claims_to_work(api, id)).then(|| {
        let told = told.map(|answer| String::from_utf8_lossy(&answer.body).into_owned());
        Complaint::new(Broken::Lie, format!("{id} is said to be ready, and runs no command: {told:?}"))
    })
}

fn has(api: &Api, id: &str, path: &str, content: &str) -> Option<Complaint> {
    let told = api.get(&format!("/api/sandbox/{id}/files{path}"), ANSWER);
    let is_there = told.as_ref().is_ok_and(|answer| answer.is_good() && answer.body == content.as_bytes());
    (!is_there && still_claims_to_work(api, id)).then(|| {
        let told = told.map(|answer| (answer.status, String::from_utf8_lossy(&answer.body).into_owned()));
        Complaint::new(Broken::Lost, format!("{path} of {id} was acknowledged with `{content}`: {told:?}"))
    })
}

fn still_claims_to_work(api: &Api, id: &str) -> bool {
    let told = api.get(&format!("/api/sandbox/{id}"), ANSWER);
    told.is_ok_and(|answer| matches!(answer.text("/status/state").as_deref(), Some("ready" | "running")))
}

/// Whatever is there belongs to a sandbox that is not proven gone, in one generation; and whoever is live has a body.
#[must_use]
pub fn what_is_there_is_wanted(kernel: &Kernel, data: &Path, server: i32) -> Vec<Complaint> {
    let (things, bodies, rows) = match (kernel.things(Some(server)), kernel.bodies(), Rows::read(data)) {
        (Ok(things), Ok(bodies), Ok(rows)) => (things, bodies, rows),
        (things, bodies, rows) => {
            let text = format!("could not look: {:?} {:?} {:?}", things.err(), bodies.err(), rows.err());
            return vec![Complaint::new(Broken::Lie, text)];
        }
    };
    let mut complaints = Vec::new();
    let present: BTreeMap<&str, &crate::Row> =
        rows.sandboxes.iter().filter(|row| !row.is_settled).map(|row| (row.id.as_str(), row)).collect();
    for (mark, things) in &things {
        if mark == NO_MARK {
            let strays = things.iter().filter(|thing| !thing.starts_with("cgroup: "));
            complaints.extend(
                strays.map(|thing| Complaint::new(Broken::Leak, format!("it carries no mark: {thing}"))),
            );
        } else if !present.contains_key(mark.split('.').nth(1).unwrap_or_default()) {
            complaints.push(Complaint::new(Broken::Leak, format!("nobody wants {mark}: {things:?}")));
        }
    }
    for (id, row) in &present {
        let own: Vec<_> = bodies.iter().filter(|body| body.sandbox() == *id).collect();
        if own.len() > 1 {
            complaints.push(Complaint::new(Broken::Lie, format!("{id} has more than one body: {own:?}")));
        }
        let is_live = row.state.pointer("/lease/live").is_some();
        if is_live && !own.iter().any(|body| body.mark == row.mark()) {
            complaints.push(Complaint::new(
                Broken::Lie,
                format!("{} is live by its row, and has no process", row.mark()),
            ));
        }
    }
    for open in rows.open_executions.iter().filter(|open| open.is_running) {
        // Of one that does not answer nobody knows better, and it is not said to be well.
        let Some(row) = present.get(open.sandbox.as_str()).filter(|row| is_well(row)) else { continue };
        let processes = things.get(&row.mark()).into_iter().flatten().filter(|it| it.starts_with("process "));
        // Its keeper is one.
        if processes.count() <= 1 {
            let text =
                format!("{} of {} runs by its row, and no process of it is there", open.id, open.sandbox);
            complaints.push(Complaint::new(Broken::Lie, text));
        }
    }
    complaints
}

/// The next deadline of all is waited for, and somebody must have seen to it then.
#[must_use]
pub fn deadlines_are_kept(data: &Path, clock: Clock, patience: Patience) -> Vec<Complaint> {
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
    patience.until_none(|| match Rows::read(data) {
        Ok(rows) => {
            let still = |row: &&crate::Row| !row.is_settled && row.id == id && row.next_deadline == Some(at);
            let left = rows.sandboxes.iter().find(still);
            let told = left.map(|row| format!("nobody sees to the deadline of {id}: {}", row.state));
            told.map(|text| Complaint::new(Broken::Stuck, text)).into_iter().collect()
        }
        Err(error) => vec![Complaint::new(Broken::Stuck, error.to_string())],
    })
}

fn is_well(row: &crate::Row) -> bool {
    let health = &row.state["lease"]["live"]["health"];
    health["verdict"] == json!("healthy") && health["doubt_since"].is_null()
}

/// Every row that is not final has a deadline, and somebody enforces it.
#[must_use]
pub fn nothing_is_stuck(data: &Path, clock: Clock) -> Vec<Complaint> {
    let rows = match Rows::read(data) {
        Ok(rows) => rows,
        Err(error) => return vec![Complaint::new(Broken::Stuck, error.to_string())],
    };
    let now_ms = clock.now_ms();
    let open = rows.sandboxes.iter().filter(|row| !row.is_settled);
    open.filter_map(|row| match row.next_deadline {
        None => {
            Some(Complaint::new(Broken::Stuck, format!("{} waits without a deadline: {}", row.id, row.state)))
        }
        Some(at) if at < now_ms - PAST_MS => {
            let text = format!("{} is overdue by {} ms: {}", row.id, now_ms - at, row.state);
            Some(Complaint::new(Broken::Stuck, text))
        }
        Some(_) => None,
    })
    .collect()
}
