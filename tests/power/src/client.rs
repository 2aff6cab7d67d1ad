//! A load client: creates sandboxes, runs commands in them and ends them. It records requests before it sends
//! them, where a response may not come, and what was acknowledged.

use std::time::Duration;

use anyhow::Result;
use pinfold_checker::{Answer, Api, Deadline, Payload};
use serde_json::{Value, json};

use crate::ledger::{Entry, Ledger, RequestKind};

const ANSWER: Duration = Duration::from_secs(20);
/// Per client.
const MOST_SANDBOXES: usize = 3;
const ARTIFACT: &str = "result";

pub(crate) struct Client<'a> {
    api: &'a Api,
    ledger: &'a Ledger,
    name: String,
    rng: fastrand::Rng,
    asked: u64,
    live: Vec<String>,
}

impl<'a> Client<'a> {
    pub(crate) fn new(api: &'a Api, ledger: &'a Ledger, number: u64, seed: u64) -> Self {
        let rng = fastrand::Rng::with_seed(seed ^ (number << 32));
        Self { api, ledger, name: format!("c{number}-{seed}"), rng, asked: 0, live: Vec::new() }
    }

    pub(crate) fn work(mut self, deadline: Deadline) -> Result<()> {
        while !deadline.remaining().is_zero() {
            self.asked += 1;
            let has_room = self.live.len() < MOST_SANDBOXES;
            match (self.any(), self.rng.u8(0..20)) {
                (None, 0..=16) => self.create()?,
                (Some(_), 0..=3) if has_room => self.create()?,
                (_, 17..) => self.run_agent()?,
                (Some(id), 4..=8) => self.exec(&id, false)?,
                (Some(id), 9..=11) => self.exec(&id, true)?,
                (Some(id), 12..=13) => self.put(&id),
                (Some(id), _) => self.end(&id)?,
            }
        }
        Ok(())
    }

    fn any(&mut self) -> Option<String> {
        let live = (!self.live.is_empty()).then(|| self.rng.usize(0..self.live.len()))?;
        Some(self.live[live].clone())
    }

    /// A refusal acknowledges nothing.
    fn request(&self, method: &str, path: &str, key: Option<&str>, payload: &Payload) -> Option<Answer> {
        self.api.request(method, path, key, payload, ANSWER).ok().filter(Answer::is_good)
    }

    fn post_keyed(&mut self, of: RequestKind, body: Value) -> Result<(String, Option<Answer>)> {
        let key = format!("{}-{}", self.name, self.asked);
        self.ledger.append(&Entry::Requested { key: key.clone(), of, body: body.clone() })?;
        let wait = if self.rng.u8(0..3) == 0 { 0 } else { 15 };
        let answer =
            self.request("POST", &format!("{}?wait={wait}", of.path()), Some(&key), &Payload::Json(body));
        Ok((key, answer))
    }

    fn create(&mut self) -> Result<()> {
        // Some request more disk than memory, and get an image on a loop device; some come from the pool.
        let limits = match self.rng.u8(0..6) {
            0 => json!({ "memory_mb": 64, "disk_mb": 64 }),
            1 | 2 => json!({}),
            _ => json!({ "memory_mb": 64 }),
        };
        let (key, answer) =
            self.post_keyed(RequestKind::Sandbox, json!({ "limits": limits, "task_id": self.name }))?;
        if let Some(answer) = answer
            && let Some(id) = answer.text("/id")
        {
            let is_ready = answer.text("/status/state").as_deref() == Some("ready");
            self.ledger.append(&Entry::Created { key, id: id.clone(), is_ready })?;
            self.live.push(id);
        }
        Ok(())
    }

    fn run_agent(&mut self) -> Result<()> {
        let says = format!("agent-{}-{}", self.name, self.asked);
        let content = format!("{:016x}", self.rng.u64(..));
        let script = format!("cat seed > {ARTIFACT}; sleep 0.{}; echo {says}", self.rng.u8(0..5));
        let context = json!({ "script": script, "files": { "seed": content }, "artifacts": [ARTIFACT] });
        let body = json!({ "taskId": self.name, "agentType": "VALIDATION", "context": context });
        let (key, answer) = self.post_keyed(RequestKind::AgentRun, body)?;
        let Some(answer) = answer else { return Ok(()) };
        if let (Some(sandbox), Some(id)) = (answer.text("/sandbox_id"), answer.text("/execution_id")) {
            self.ledger.append(&Entry::Created { key, id: sandbox.clone(), is_ready: false })?;
            self.note_run(&answer, &id, &sandbox, says, 0)?;
            for artifact in answer.json()["artifacts"].as_array().into_iter().flatten() {
                if artifact["state"] == json!("kept") {
                    let name = artifact["name"].as_str().unwrap_or_default().to_owned();
                    let (execution, sandbox, content) = (id.clone(), sandbox.clone(), content.clone());
                    self.ledger.append(&Entry::Kept { execution, sandbox, name, content })?;
                }
            }
        }
        Ok(())
    }

    fn exec(&mut self, sandbox: &str, background: bool) -> Result<()> {
        let (says, exits_with) = (format!("said-{}-{}", self.name, self.asked), self.rng.i64(0..3));
        let takes = if background { self.rng.u8(0..9) } else { self.rng.u8(0..2) };
        let script = format!("echo {says}; sleep 0.{takes}; exit {exits_with}");
        let body =
            json!({ "command": ["sh", "-c", script], "background": background, "timeout_ms": 300_000 });
        let answer =
            self.request("POST", &format!("/api/sandbox/{sandbox}/exec?wait=15"), None, &Payload::Json(body));
        match answer.as_ref().and_then(|answer| Some((answer, answer.text("/execution_id")?))) {
            Some((answer, id)) => self.note_run(answer, &id, sandbox, says, exits_with)?,
            None => self.live.retain(|live| live != sandbox),
        }
        Ok(())
    }

    /// Status 200 means that the execution has ended.
    fn note_run(
        &self,
        answer: &Answer,
        id: &str,
        sandbox: &str,
        says: String,
        exits_with: i64,
    ) -> Result<()> {
        let (has_ended, exit_code) = (answer.status == 200, answer.json()["exit_code"].as_i64());
        let (id, sandbox) = (id.to_owned(), sandbox.to_owned());
        self.ledger.append(&Entry::Ran { id, sandbox, says, exits_with, has_ended, exit_code })
    }

    /// Files are lost with the instance, so nothing is recorded.
    fn put(&mut self, sandbox: &str) {
        let content = Payload::Bytes(format!("{:016x}", self.rng.u64(..)).into_bytes());
        let path = format!("/api/sandbox/{sandbox}/files/workspace/{}", self.asked);
        if self.request("PUT", &path, None, &content).is_none() {
            self.live.retain(|live| live != sandbox);
        }
    }

    fn end(&mut self, sandbox: &str) -> Result<()> {
        let (force, forget) = (u8::from(self.rng.bool()), self.rng.u8(0..4) == 0);
        self.ledger.append(&Entry::Ending { id: sandbox.to_owned(), forget })?;
        self.live.retain(|live| live != sandbox);
        let query = format!("wait=15&force={force}&forget={}", u8::from(forget));
        let answer =
            self.request("DELETE", &format!("/api/sandbox/{sandbox}?{query}"), None, &Payload::Nothing);
        // With 202 the receipt is still to come.
        if let Some(answer) = answer.filter(|answer| answer.status == 200) {
            self.ledger.append(&Entry::Ended { id: sandbox.to_owned(), receipt: answer.json() })?;
        }
        Ok(())
    }
}
