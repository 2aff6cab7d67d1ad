//! The judgement of a server that was started on what the power cut has left: first what it has made of that by itself,
//! then whether everything that was acknowledged is known when all has ended.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use pinfold_checker::{
    Answer, Api, Clock, Complaint, Kernel, Patience, Rows, keys_hold, nothing_is_a_lie, nothing_is_left,
    nothing_is_lost, nothing_is_stuck, nothing_outlives_the_server, sums_are_right, what_is_there_is_wanted,
};
use serde_json::json;

use crate::acknowledged::{Acknowledged, Artifact};
use crate::server::Server;

const ANSWER: Duration = Duration::from_secs(40);
/// How long it may take until everything is as it should be.
const SETTLE: Duration = Duration::from_secs(30);
const END_ALL: Duration = Duration::from_secs(60);
const AFTER_THE_SERVER: Duration = Duration::from_secs(5);
const FINAL: [&str; 3] = ["completed", "failed", "terminated"];

pub(crate) struct Judge {
    kernel: Kernel,
    clock: Clock,
    data: PathBuf,
    acknowledged: Acknowledged,
}

impl Judge {
    pub(crate) fn of(data: &Path, acknowledged: Acknowledged) -> Result<Self> {
        let rows = Rows::read(data)?;
        // Nobody but ourselves looks on.
        let kernel = Kernel::new(data, &rows.instance, &[i32::try_from(std::process::id())?]);
        Ok(Self { kernel, clock: Clock::of(data)?, data: data.to_owned(), acknowledged })
    }

    /// The first of these that does not hold in time has to explain itself: what comes later would only follow from it.
    pub(crate) fn all(&mut self, server: &Server) -> Vec<String> {
        let looks: [fn(&mut Self, &Server) -> Vec<String>; 12] = [
            |judge, _| judge.the_store_is_sound(),
            |judge, server| in_time(|| judge.bodies_went_with_the_power(&server.api)),
            |judge, _| told(in_time(|| nothing_is_stuck(&judge.data, judge.clock))),
            |judge, server| {
                told(in_time(|| what_is_there_is_wanted(&judge.kernel, &judge.data, server.pid())))
            },
            |judge, server| told(in_time(|| nothing_is_a_lie(&server.api, &judge.acknowledged.promises))),
            |judge, server| told(keys_hold(&server.api, &mut judge.acknowledged.promises)),
            |_, server| works_again(&server.api),
            |judge, server| {
                end_all(&server.api);
                told(in_time(|| nothing_is_left(&judge.kernel, &judge.data, server.pid())))
            },
            |judge, server| told(in_time(|| sums_are_right(&server.api, &judge.data))),
            |judge, server| told(nothing_is_lost(&server.api, &judge.acknowledged.promises)),
            |judge, server| judge.proofs_and_artifacts_are_the_same(&server.api),
            |judge, server| told(keys_hold(&server.api, &mut judge.acknowledged.promises)),
        ];
        let found = looks.iter().map(|look| look(self, server)).find(|found| !found.is_empty());
        found.unwrap_or_default()
    }

    /// When everything has ended in order.
    pub(crate) fn after(&self, server: Server) -> Result<Vec<String>> {
        let status = server.end()?;
        ensure!(status.success(), "the server ended with {status}");
        let patience = Patience::of(AFTER_THE_SERVER);
        Ok(told(patience.until_none(|| nothing_outlives_the_server(&self.kernel, &self.data))))
    }

    fn the_store_is_sound(&self) -> Vec<String> {
        match Rows::damage(&self.data) {
            Ok(None) => Vec::new(),
            other => vec![format!("the store is damaged: {other:?}")],
        }
    }

    /// Who was ready has ended by now, without being asked to, for the reason that is so.
    fn bodies_went_with_the_power(&self, api: &Api) -> Vec<String> {
        let Acknowledged { ready, ending, promises, .. } = &self.acknowledged;
        let complaint = |id: &String| {
            let sandbox = match api.get(&format!("/api/sandbox/{id}"), ANSWER) {
                Ok(answer) if answer.status == 404 && promises.forgotten.contains(id) => return None,
                Ok(answer) if answer.status == 200 => answer.json(),
                other => return Some(format!("lost: {id} was ready, and is not known: {other:?}")),
            };
            let state = sandbox["status"]["state"].as_str().unwrap_or_default();
            let cause = sandbox["cause"].as_str().unwrap_or_default();
            // Of one that was ended and forgotten the disk may have kept what was removed last: that is nobody's by now.
            let came_back = cause == "orphan" && promises.forgotten.contains(id);
            let was_asked = cause == "stopped_by_user" && ending.contains(id);
            let is_so = cause == "host_restarted" || was_asked || came_back;
            (!FINAL.contains(&state) || !is_so)
                .then(|| format!("lie: {id} went with the power, and is {state} by {cause:?}: {sandbox}"))
        };
        ready.iter().filter_map(complaint).collect()
    }

    /// Also what was said of them.
    fn proofs_and_artifacts_are_the_same(&self, api: &Api) -> Vec<String> {
        let Acknowledged { receipts, artifacts, promises, .. } = &self.acknowledged;
        let is_forgotten = |id: &String| promises.forgotten.contains(id);
        let mut complaints = Vec::new();
        for (id, receipt) in receipts.iter().filter(|(id, _)| !is_forgotten(id)) {
            let again = api.delete(&format!("/api/sandbox/{id}?wait=0"), ANSWER);
            if !again.as_ref().is_ok_and(|answer| answer.status == 200 && answer.json() == *receipt) {
                complaints.push(format!("lost: the receipt of {id} was {receipt}, and is {again:?}"));
            }
        }
        for Artifact { execution, sandbox, name, content } in artifacts {
            let told = api.get(&format!("/api/executions/{execution}/artifacts/{name}"), ANSWER);
            let is_same =
                told.as_ref().is_ok_and(|answer| answer.is_good() && answer.body == content.as_bytes());
            if !is_same && !is_forgotten(sandbox) {
                complaints.push(format!("lost: {name} of {execution} was kept with `{content}`: {told:?}"));
            }
        }
        complaints
    }
}

impl fmt::Display for Judge {
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

fn in_time<T>(look: impl FnMut() -> Vec<T>) -> Vec<T> {
    Patience::of(SETTLE).until_none(look)
}

fn told(complaints: Vec<Complaint>) -> Vec<String> {
    complaints.iter().map(ToString::to_string).collect()
}

/// One more, from its beginning to its proof.
fn works_again(api: &Api) -> Vec<String> {
    let failed = |what: &str, told: std::io::Result<Answer>| vec![format!("stuck: no {what}: {told:?}")];
    let made = api.post("/api/sandbox?wait=30", None, json!({ "limits": { "memory_mb": 64 } }), ANSWER);
    let Some(id) = made.as_ref().ok().and_then(|answer| answer.text("/id")) else {
        return failed("sandbox is made", made);
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

/// Whoever is still there is asked to end, until nobody is or there is no more time. What is left then is told by others.
fn end_all(api: &Api) {
    Patience::of(END_ALL).until(|| {
        let ids = listed(api)?;
        for id in &ids {
            let _judged_later = api.delete(&format!("/api/sandbox/{id}?wait=30"), ANSWER);
        }
        ids.is_empty().then_some(())
    });
}

fn listed(api: &Api) -> Option<Vec<String>> {
    let list = api.get("/api/sandbox/list", ANSWER).ok().filter(Answer::is_good)?.json();
    Some(list.as_array()?.iter().filter_map(|sandbox| Some(sandbox["id"].as_str()?.to_owned())).collect())
}
