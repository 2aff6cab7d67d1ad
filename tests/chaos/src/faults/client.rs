//! A load client: creates sandboxes, runs commands in them and deletes them, and records exactly what the server
//! acknowledged.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use pinfold_checker::{Answer, Api, Command, CreateRequest, Execution, File, Payload, Promises, Sandbox};
use serde_json::{Value, json};

const CREATE: &str = "/api/sandbox";
const AGENT: &str = "/api/agents/execute";
const ANSWER: Duration = Duration::from_secs(10);
/// Per client.
const MOST_SANDBOXES: usize = 4;

/// The server's current address, and whether the load goes on.
pub(crate) struct Target {
    pub(crate) api: RwLock<Api>,
    pub(crate) is_over: AtomicBool,
    /// Whether anything was acknowledged yet.
    pub(crate) has_acknowledged: AtomicBool,
}

impl Target {
    pub(crate) fn new(api: Api) -> Self {
        Self {
            api: RwLock::new(api),
            is_over: AtomicBool::new(false),
            has_acknowledged: AtomicBool::new(false),
        }
    }

    pub(crate) fn moved_to(&self, api: Api) {
        *self.api.write().unwrap_or_else(PoisonError::into_inner) = api;
    }

    fn api(&self) -> Api {
        self.api.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

pub(crate) struct Client<'a> {
    target: &'a Target,
    name: String,
    rng: fastrand::Rng,
    asked: u64,
    live: Vec<String>,
    /// Whether the last request reached a server.
    reached: bool,
    promises: Promises,
}

impl<'a> Client<'a> {
    pub(crate) fn new(target: &'a Target, number: u64, seed: u64) -> Self {
        let rng = fastrand::Rng::with_seed(seed ^ (number << 32));
        let (name, promises) = (format!("c{number}"), Promises::default());
        Self { target, name, rng, asked: 0, live: Vec::new(), reached: false, promises }
    }

    /// Runs until the load is over. Returns what was acknowledged.
    pub(crate) fn work(mut self) -> Promises {
        while !self.target.is_over.load(Ordering::Relaxed) {
            self.asked += 1;
            let has_room = self.live.len() < MOST_SANDBOXES;
            match (self.any(), self.rng.u8(0..20)) {
                (None, 0..=17) => self.create(),
                (Some(_), 0..=2) if has_room => self.create(),
                (_, 18) => self.run_agent(),
                (Some(id), 3..=7) => self.exec(&id, false),
                (Some(id), 8..=10) => self.exec(&id, true),
                (Some(id), 11..=13) => self.put(&id),
                (Some(id), 14) => self.touch(&id),
                (Some(id), 15..=17) => self.delete(&id),
                (_, _) => {}
            }
            std::thread::sleep(Duration::from_millis(self.rng.u64(5..40)));
        }
        self.promises
    }

    fn any(&mut self) -> Option<String> {
        let live = (!self.live.is_empty()).then(|| self.rng.usize(0..self.live.len()))?;
        Some(self.live[live].clone())
    }

    /// The response, if there was one.
    fn request(&mut self, method: &str, path: &str, key: Option<&str>, payload: &Payload) -> Option<Answer> {
        let answer = self.target.api().request(method, path, key, payload, ANSWER);
        match &answer {
            Ok(answer) if answer.is_good() => self.promises.answered += 1,
            _ => self.promises.refused += 1,
        }
        self.reached = !answer.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
        answer.ok()
    }

    /// Records a request that reached the server and got no response.
    fn leave_unanswered(&mut self, request: CreateRequest) {
        if self.reached {
            self.promises.unanswered.push(request);
        }
    }

    fn forget_if_gone(&mut self, id: &str, answer: Option<&Answer>) {
        if answer.is_some_and(|answer| matches!(answer.status, 404 | 410 | 409)) {
            self.live.retain(|live| live != id);
        }
    }

    fn post_keyed(&mut self, path: &'static str, body: Value) -> (Option<Answer>, CreateRequest) {
        let key = format!("{}-{}", self.name, self.asked);
        let wait = if self.rng.bool() { 0 } else { 8 };
        let request = CreateRequest { key: key.clone(), path, body: body.clone() };
        (self.request("POST", &format!("{path}?wait={wait}"), Some(&key), &Payload::Json(body)), request)
    }

    fn create(&mut self) {
        // Some request more disk than memory, and get an image on a loop device.
        let limits = match self.rng.u8(0..6) {
            0 => json!({ "memory_mb": 64, "disk_mb": 64 }),
            1 | 2 => json!({}),
            _ => json!({ "memory_mb": 64 }),
        };
        let (answer, request) = self.post_keyed(CREATE, json!({ "limits": limits, "task_id": self.name }));
        match answer {
            Some(answer) if answer.is_good() => {
                if let Some(id) = answer.text("/id") {
                    self.target.has_acknowledged.store(true, Ordering::Relaxed);
                    self.live.push(id.clone());
                    self.promises.sandboxes.push(Sandbox { id, request });
                }
            }
            _ => self.leave_unanswered(request),
        }
    }

    fn run_agent(&mut self) {
        let says = format!("agent-{}-{}", self.name, self.asked);
        let context = json!({ "script": format!("cat seed; sleep 0.{}; echo {says}", self.rng.u8(0..5)),
            "files": { "seed": "fresh\n" } });
        let body = json!({ "taskId": self.name, "agentType": "VALIDATION", "context": context });
        let (answer, request) = self.post_keyed(AGENT, body);
        let Some(answer) = answer.filter(Answer::is_good) else { return self.leave_unanswered(request) };
        if let (Some(sandbox), Some(id)) = (answer.text("/sandbox_id"), answer.text("/execution_id")) {
            self.promises.sandboxes.push(Sandbox { id: sandbox.clone(), request });
            let exit_code = (answer.status == 200).then(|| answer.json()["exit_code"].as_i64());
            let command = Command { says, exits_with: 0 };
            self.promises.executions.push(Execution { id, sandbox, command, exit_code });
        }
    }

    fn exec(&mut self, sandbox: &str, background: bool) {
        let command =
            Command { says: format!("said-{}-{}", self.name, self.asked), exits_with: self.rng.i64(0..3) };
        let takes = if background { self.rng.u8(0..9) } else { self.rng.u8(0..2) };
        let script = format!("echo {}; sleep 0.{takes}; exit {}", command.says, command.exits_with);
        let body =
            json!({ "command": ["sh", "-c", script], "background": background, "timeout_ms": 300_000 });
        let answer =
            self.request("POST", &format!("{CREATE}/{sandbox}/exec?wait=8"), None, &Payload::Json(body));
        self.forget_if_gone(sandbox, answer.as_ref());
        if let Some(answer) = answer.filter(Answer::is_good)
            && let Some(id) = answer.text("/execution_id")
        {
            let exit_code = (answer.status == 200).then(|| answer.json()["exit_code"].as_i64());
            self.promises.executions.push(Execution { id, sandbox: sandbox.to_owned(), command, exit_code });
        }
    }

    fn put(&mut self, sandbox: &str) {
        let path = format!("/workspace/{}-{}", self.name, self.asked);
        let content = format!("{:016x}", self.rng.u64(..));
        let payload = Payload::Bytes(content.clone().into_bytes());
        let answer = self.request("PUT", &format!("{CREATE}/{sandbox}/files{path}"), None, &payload);
        self.forget_if_gone(sandbox, answer.as_ref());
        if answer.is_some_and(|answer| answer.is_good()) {
            self.promises.files.push(File { sandbox: sandbox.to_owned(), path, content });
        }
    }

    fn touch(&mut self, sandbox: &str) {
        let answer = self.request("POST", &format!("{CREATE}/{sandbox}/touch"), None, &Payload::Nothing);
        self.forget_if_gone(sandbox, answer.as_ref());
    }

    fn delete(&mut self, sandbox: &str) {
        let force = u8::from(self.rng.bool());
        let forgets = self.rng.u8(0..4) == 0;
        if forgets {
            self.promises.forgotten.insert(sandbox.to_owned());
        }
        let query = format!("wait=8&force={force}&forget={}", u8::from(forgets));
        let answer = self.request("DELETE", &format!("{CREATE}/{sandbox}?{query}"), None, &Payload::Nothing);
        self.forget_if_gone(sandbox, answer.as_ref());
        if answer.is_some_and(|answer| answer.status == 200) {
            self.live.retain(|live| live != sandbox);
            self.promises.deleted.insert(sandbox.to_owned());
        }
    }
}
