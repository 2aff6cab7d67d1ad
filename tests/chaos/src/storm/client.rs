//! One of those who ask: makes sandboxes, works in them and ends them, and notes what was acknowledged to it and
//! nothing else.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use pinfold_checker::{Answer, Api, Command, Execution, File, Payload, Promises, Sandbox, Wish};
use serde_json::{Value, json};

const CREATE: &str = "/api/sandbox";
const AGENT: &str = "/api/agents/execute";
const ANSWER: Duration = Duration::from_secs(10);
/// Of one client at one time.
const MOST_SANDBOXES: usize = 4;

/// Where the server is at the moment, and whether the load goes on.
pub(crate) struct Front {
    pub(crate) api: RwLock<Api>,
    pub(crate) is_over: AtomicBool,
    /// Whether anything was acknowledged yet.
    pub(crate) has_begun: AtomicBool,
}

impl Front {
    pub(crate) fn new(api: Api) -> Self {
        Self { api: RwLock::new(api), is_over: AtomicBool::new(false), has_begun: AtomicBool::new(false) }
    }

    pub(crate) fn moved_to(&self, api: Api) {
        *self.api.write().unwrap_or_else(PoisonError::into_inner) = api;
    }

    fn api(&self) -> Api {
        self.api.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

pub(crate) struct Client<'a> {
    front: &'a Front,
    name: String,
    rng: fastrand::Rng,
    asked: u64,
    live: Vec<String>,
    /// Whether the last request came to anybody.
    reached: bool,
    promises: Promises,
}

impl<'a> Client<'a> {
    pub(crate) fn new(front: &'a Front, number: u64, seed: u64) -> Self {
        let rng = fastrand::Rng::with_seed(seed ^ (number << 32));
        let (name, promises) = (format!("c{number}"), Promises::default());
        Self { front, name, rng, asked: 0, live: Vec::new(), reached: false, promises }
    }

    /// Until it is over. What was promised.
    pub(crate) fn work(mut self) -> Promises {
        while !self.front.is_over.load(Ordering::Relaxed) {
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

    /// What came back, if anything did.
    fn ask(&mut self, method: &str, path: &str, key: Option<&str>, payload: &Payload) -> Option<Answer> {
        let answer = self.front.api().ask(method, path, key, payload, ANSWER);
        match &answer {
            Ok(answer) if answer.is_good() => self.promises.answered += 1,
            _ => self.promises.refused += 1,
        }
        self.reached = !answer.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
        answer.ok()
    }

    /// A wish that somebody has heard, and not answered.
    fn leave_unanswered(&mut self, wish: Wish) {
        if self.reached {
            self.promises.unanswered.push(wish);
        }
    }

    fn forget_if_gone(&mut self, id: &str, answer: Option<&Answer>) {
        if answer.is_some_and(|answer| matches!(answer.status, 404 | 410 | 409)) {
            self.live.retain(|live| live != id);
        }
    }

    fn wish(&mut self, path: &'static str, what: Value) -> (Option<Answer>, Wish) {
        let key = format!("{}-{}", self.name, self.asked);
        let wait = if self.rng.bool() { 0 } else { 8 };
        let wish = Wish { key: key.clone(), path, what: what.clone() };
        (self.ask("POST", &format!("{path}?wait={wait}"), Some(&key), &Payload::Json(what)), wish)
    }

    fn create(&mut self) {
        // Some have more disk than fits into their memory, and get one in a file.
        let limits = match self.rng.u8(0..6) {
            0 => json!({ "memory_mb": 64, "disk_mb": 64 }),
            1 | 2 => json!({}),
            _ => json!({ "memory_mb": 64 }),
        };
        let (answer, wish) = self.wish(CREATE, json!({ "limits": limits, "task_id": self.name }));
        match answer {
            Some(answer) if answer.is_good() => {
                if let Some(id) = answer.text("/id") {
                    self.front.has_begun.store(true, Ordering::Relaxed);
                    self.live.push(id.clone());
                    self.promises.sandboxes.push(Sandbox { id, wish });
                }
            }
            _ => self.leave_unanswered(wish),
        }
    }

    fn run_agent(&mut self) {
        let says = format!("agent-{}-{}", self.name, self.asked);
        let context = json!({ "script": format!("cat seed; sleep 0.{}; echo {says}", self.rng.u8(0..5)),
            "files": { "seed": "fresh\n" } });
        let what = json!({ "taskId": self.name, "agentType": "VALIDATION", "context": context });
        let (answer, wish) = self.wish(AGENT, what);
        let Some(answer) = answer.filter(Answer::is_good) else { return self.leave_unanswered(wish) };
        if let (Some(sandbox), Some(id)) = (answer.text("/sandbox_id"), answer.text("/execution_id")) {
            self.promises.sandboxes.push(Sandbox { id: sandbox.clone(), wish });
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
        let what =
            json!({ "command": ["sh", "-c", script], "background": background, "timeout_ms": 300_000 });
        let answer = self.ask("POST", &format!("{CREATE}/{sandbox}/exec?wait=8"), None, &Payload::Json(what));
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
        let answer = self.ask("PUT", &format!("{CREATE}/{sandbox}/files{path}"), None, &payload);
        self.forget_if_gone(sandbox, answer.as_ref());
        if answer.is_some_and(|answer| answer.is_good()) {
            self.promises.files.push(File { sandbox: sandbox.to_owned(), path, content });
        }
    }

    fn touch(&mut self, sandbox: &str) {
        let answer = self.ask("POST", &format!("{CREATE}/{sandbox}/touch"), None, &Payload::Nothing);
        self.forget_if_gone(sandbox, answer.as_ref());
    }

    fn delete(&mut self, sandbox: &str) {
        let force = u8::from(self.rng.bool());
        let forgets = self.rng.u8(0..4) == 0;
        if forgets {
            self.promises.forgotten.insert(sandbox.to_owned());
        }
        let query = format!("wait=8&force={force}&forget={}", u8::from(forgets));
        let answer = self.ask("DELETE", &format!("{CREATE}/{sandbox}?{query}"), None, &Payload::Nothing);
        self.forget_if_gone(sandbox, answer.as_ref());
        if answer.is_some_and(|answer| answer.status == 200) {
            self.live.retain(|live| live != sandbox);
            self.promises.deleted.insert(sandbox.to_owned());
        }
    }
}
