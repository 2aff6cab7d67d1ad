//! Runs every command of `docs/runbook.md` as written, against real sandboxes that are stuck in each of the ways it
//! describes.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::fixture::{Fixture, sh, with_server};

const BUSY: &str = "while :; do :; done";
const HUNG: &str = "mkfifo /tmp/never; read line < /tmp/never";
const LEAKING: &str =
    "a=0123456789; while [ ${#a} -lt 4000000 ]; do a=$a$a; done; b=; while :; do b=$b$a; sleep 1; done";
const SILENT: &str = "while :; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.1; done";

/// The runbook's commands by step.
fn steps() -> BTreeMap<String, String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/runbook.md");
    let text = std::fs::read_to_string(path).unwrap();
    let mut steps = BTreeMap::new();
    for block in text.split("\n```sh ").skip(1) {
        let (name, rest) = block.split_once('\n').unwrap();
        let (command, _) = rest.split_once("\n```").unwrap();
        assert!(steps.insert(name.to_owned(), command.to_owned()).is_none(), "two steps are called {name}");
    }
    steps
}

struct Operator {
    fixture: Arc<Fixture>,
    steps: BTreeMap<String, String>,
    taken: std::sync::Mutex<std::collections::BTreeSet<String>>,
}

impl Operator {
    /// Runs the command of a step and parses its output.
    async fn run_step(&self, step: &str, sandbox: &str) -> Value {
        self.taken.lock().unwrap().insert(step.to_owned());
        let command = self.steps.get(step).unwrap_or_else(|| panic!("the runbook has no step {step}"));
        let mut shell = Command::new("sh");
        shell.args(["-euc", command]).stdin(Stdio::null());
        shell.env("PINFOLD_URL", format!("http://{}", self.fixture.address));
        shell.env("PINFOLD_TOKEN", &self.fixture.admin).env("SANDBOX", sandbox);
        let ran = tokio::task::spawn_blocking(move || shell.output()).await.unwrap().unwrap();
        let (said, complained) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success(), "{step}: {said}{complained}");
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{step}: {error}: {said}{complained}"))
    }

    /// Repeats a step until its output meets the condition, which takes longer on a busy machine.
    async fn until(&self, step: &str, sandbox: &str, met: impl Fn(&Value) -> bool) -> Value {
        let poll = async {
            loop {
                let seen = self.run_step(step, sandbox).await;
                if met(&seen) {
                    return seen;
                }
            }
        };
        match tokio::time::timeout(std::time::Duration::from_secs(40), poll).await {
            Ok(seen) => seen,
            Err(_) => panic!("{step} did not meet the condition: {:#}", self.run_step(step, sandbox).await),
        }
    }
}

async fn stuck(fixture: &Fixture, agent: &str, script: &str) -> String {
    let spec = json!({ "agent_type": agent, "task_id": "task_456", "limits": { "disk_mb": 32 } });
    let made = fixture.post("/api/sandbox", spec).await;
    assert_eq!(made.status, 201, "{:?}", made.bytes);
    let id = made.json()["id"].as_str().unwrap().to_owned();
    fixture.sh_in_background(&id, sh(script)).await;
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn every_runbook_step_works_as_written() {
    with_server(|fixture| async move {
        let taken = std::sync::Mutex::default();
        let operator = Operator { fixture: fixture.clone(), steps: steps(), taken };
        let busy = stuck(&fixture, "implementation", BUSY).await;
        let hung = stuck(&fixture, "elicitation", HUNG).await;
        let leaking = stuck(&fixture, "validation", LEAKING).await;
        let silent = stuck(&fixture, "test_writer", SILENT).await;

        let stats = operator.run_step("stats", "").await;
        assert_eq!((&stats["active"], &stats["total_created"]), (&json!(4), &json!(4)), "{stats}");
        let list = operator.run_step("list", "").await;
        assert_eq!(list.as_array().unwrap().len(), 4);
        assert!(
            list.as_array()
                .unwrap()
                .iter()
                .all(|it| it["task_id"] == "task_456" && it["agent_type"].is_string())
        );
        assert_eq!(operator.run_step("oldest", "").await["id"], json!(busy));
        let detail = operator.run_step("detail", &busy).await;
        assert_eq!((&detail["id"], &detail["status"]["state"]), (&json!(busy), &json!("running")));

        let log = operator.run_step("logs", &hung).await;
        assert!(log["last_activity"].is_string() && !log["entries"].as_array().unwrap().is_empty());
        operator.run_step("hints", &hung).await;
        diagnoses(&operator, [&busy, &hung, &leaking, &silent]).await;

        let receipt = operator.run_step("delete", &busy).await;
        assert_eq!((&receipt["cause"], &receipt["sandbox_id"]), (&json!("stopped_by_user"), &json!(busy)));
        assert!(receipt["checks"].as_array().unwrap().iter().all(|check| check["result"] == "absent"));
        cleanups(&operator).await;
        for other in [&hung, &leaking, &silent] {
            operator.run_step("delete", other).await;
        }
        let after = operator.run_step("stats", "").await;
        assert_eq!((&after["active"], &after["total_destroyed"]), (&json!(0), &json!(4)), "{after}");
        assert_eq!(operator.run_step("list", "").await, json!([]));
        assert_nothing_is_left(&operator).await;
        let ended = operator.run_step("verify", &busy).await;
        assert_eq!(ended["status"]["state"], "terminated");
        let left: Vec<_> = {
            let taken = operator.taken.lock().unwrap();
            operator.steps.keys().filter(|step| !taken.contains(*step)).cloned().collect()
        };
        assert!(left.is_empty(), "no test runs the steps {left:?}");
    })
    .await;
}

async fn assert_nothing_is_left(operator: &Operator) {
    assert_eq!(operator.run_step("old", "").await, json!([]));
    let compared = operator.run_step("audit", "").await;
    let repaired = operator.run_step("reconcile", "").await;
    for seen in [&compared, &repaired] {
        let lists =
            [&seen["instances_without_record"], &seen["records_without_instance"], &seen["disagreements"]];
        assert_eq!(lists, [&json!([]); 3], "{seen}");
    }
    assert_eq!((&compared["dry_run"], &repaired["unsettled"]), (&json!(true), &json!(0)), "{repaired}");
    let rates = operator.run_step("rates", "").await;
    let quota = operator.run_step("quota", "").await;
    let names = |seen: &Value| seen.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&rates), ["failure", "timeout"]);
    assert_eq!(quota["sandboxes_share"], json!(null), "no limit is set");
    assert_eq!(names(&quota), ["disk_share", "memory_share", "processes_share", "sandboxes_share"]);
    let health = operator.until("health", "", |health| health["stuck"] == 0).await;
    assert_eq!(health["status"], "ok", "{health}");
}

async fn cleanups(operator: &Operator) {
    let said = operator.run_step("cleanup_dry_run", "").await;
    let done = operator.run_step("cleanup", "").await;
    assert_eq!((&said["found"], &done["found"]), (&json!([]), &json!([])), "they are young: {done}");
    operator.until("cleanup_schedule", "", |turns| turns.as_array().unwrap().len() == 4).await;
    let runs = operator.run_step("cleanup_runs", "").await;
    assert_eq!((&runs[0]["layer"], &runs[0]["outcome"]), (&json!("scheduled"), &json!("done")), "{runs}");
    let said = operator.run_step("emergency_dry_run", "").await;
    let done = operator.run_step("emergency", "").await;
    assert_eq!((&said["found"], done["ended"].as_array().unwrap().len()), (&done["found"], 3), "{done}");
}

async fn diagnoses(operator: &Operator, [busy, hung, leaking, silent]: [&str; 4]) {
    let says = |words: &'static str| move |seen: &Value| seen["diagnosis"].as_str().unwrap().contains(words);
    let seen = operator.until("resources", leaking, says("memory leak")).await;
    assert!(seen["memory_mb"].as_f64().unwrap() > 1.0, "{seen}");
    let seen = operator.until("resources", busy, says("infinite loop or heavy computation")).await;
    // On a loaded machine the loop gets only a share of a core.
    assert!(seen["cpu_percent"].as_f64().unwrap() > 3.0, "{seen}");
    let seen = operator.until("resources", hung, says("hung on I/O or deadlock")).await;
    assert!(seen["cpu_percent"].as_f64().unwrap() <= 3.0, "{seen}");
    assert!(seen["operations"].is_u64() && seen["duration_ms"].as_u64().unwrap() >= 5_000, "{seen}");
    operator.until("resources", silent, says("no operations")).await;
}
