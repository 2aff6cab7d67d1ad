//! `docs/runbook.md`, executed: every command in it is run as it stands there, against real sandboxes that are stuck
//! in each of the ways it speaks of.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::ground::{Ground, on_server, sh};

const BUSY: &str = "while :; do :; done";
const HUNG: &str = "mkfifo /tmp/never; read line < /tmp/never";
const LEAKING: &str =
    "a=0123456789; while [ ${#a} -lt 4000000 ]; do a=$a$a; done; b=; while :; do b=$b$a; sleep 1; done";
const SILENT: &str = "while :; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.1; done";

/// The commands of the runbook by the names of its steps.
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
    ground: Arc<Ground>,
    steps: BTreeMap<String, String>,
    taken: std::sync::Mutex<std::collections::BTreeSet<String>>,
}

impl Operator {
    /// What the command of a step prints.
    async fn take(&self, step: &str, sandbox: &str) -> Value {
        self.taken.lock().unwrap().insert(step.to_owned());
        let command = self.steps.get(step).unwrap_or_else(|| panic!("the runbook has no step {step}"));
        let mut shell = Command::new("sh");
        shell.args(["-euc", command]).stdin(Stdio::null());
        shell.env("PINFOLD_URL", format!("http://{}", self.ground.address));
        shell.env("PINFOLD_TOKEN", &self.ground.admin).env("SANDBOX", sandbox);
        let ran = tokio::task::spawn_blocking(move || shell.output()).await.unwrap().unwrap();
        let (said, complained) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success(), "{step}: {said}{complained}");
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{step}: {error}: {said}{complained}"))
    }

    /// Takes a step again until it shows what it should: a machine that is busy with other things shows it later.
    async fn until(&self, step: &str, sandbox: &str, met: impl Fn(&Value) -> bool) -> Value {
        let look = async {
            loop {
                let seen = self.take(step, sandbox).await;
                if met(&seen) {
                    return seen;
                }
            }
        };
        match tokio::time::timeout(std::time::Duration::from_secs(40), look).await {
            Ok(seen) => seen,
            Err(_) => panic!("{step} never showed it: {:#}", self.take(step, sandbox).await),
        }
    }
}

async fn stuck(ground: &Ground, agent: &str, script: &str) -> String {
    let wish = json!({ "agent_type": agent, "task_id": "task_456", "limits": { "disk_mb": 32 } });
    let made = ground.post("/api/sandbox", wish).await;
    assert_eq!(made.status, 201, "{:?}", made.bytes);
    let id = made.json()["id"].as_str().unwrap().to_owned();
    ground.sh_in_background(&id, sh(script)).await;
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn every_step_of_the_runbook_works_as_it_is_written() {
    on_server(|ground| async move {
        let taken = std::sync::Mutex::default();
        let operator = Operator { ground: ground.clone(), steps: steps(), taken };
        let busy = stuck(&ground, "implementation", BUSY).await;
        let hung = stuck(&ground, "elicitation", HUNG).await;
        let leaking = stuck(&ground, "validation", LEAKING).await;
        let silent = stuck(&ground, "test_writer", SILENT).await;

        let stats = operator.take("stats", "").await;
        assert_eq!((&stats["active"], &stats["total_created"]), (&json!(4), &json!(4)), "{stats}");
        let list = operator.take("list", "").await;
        assert_eq!(list.as_array().unwrap().len(), 4);
        assert!(
            list.as_array()
                .unwrap()
                .iter()
                .all(|it| it["task_id"] == "task_456" && it["agent_type"].is_string())
        );
        assert_eq!(operator.take("oldest", "").await["id"], json!(busy));
        let detail = operator.take("detail", &busy).await;
        assert_eq!((&detail["id"], &detail["status"]["state"]), (&json!(busy), &json!("running")));

        let log = operator.take("logs", &hung).await;
        assert!(log["last_activity"].is_string() && !log["entries"].as_array().unwrap().is_empty());
        operator.take("hints", &hung).await;
        diagnoses(&operator, [&busy, &hung, &leaking, &silent]).await;

        let receipt = operator.take("delete", &busy).await;
        assert_eq!((&receipt["cause"], &receipt["sandbox_id"]), (&json!("stopped_by_user"), &json!(busy)));
        assert!(receipt["checks"].as_array().unwrap().iter().all(|check| check["result"] == "absent"));
        cleanups(&operator).await;
        for other in [&hung, &leaking, &silent] {
            operator.take("delete", other).await;
        }
        let after = operator.take("stats", "").await;
        assert_eq!((&after["active"], &after["total_destroyed"]), (&json!(0), &json!(4)), "{after}");
        assert_eq!(operator.take("list", "").await, json!([]));
        it_is_over(&operator).await;
        let ended = operator.take("verify", &busy).await;
        assert_eq!(ended["status"]["state"], "terminated");
        let left: Vec<_> = {
            let taken = operator.taken.lock().unwrap();
            operator.steps.keys().filter(|step| !taken.contains(*step)).cloned().collect()
        };
        assert!(left.is_empty(), "no test takes {left:?}");
    })
    .await;
}

async fn it_is_over(operator: &Operator) {
    assert_eq!(operator.take("old", "").await, json!([]));
    let compared = operator.take("audit", "").await;
    let repaired = operator.take("reconcile", "").await;
    for seen in [&compared, &repaired] {
        let lists = [&seen["bodies_without_record"], &seen["records_without_body"], &seen["disagreements"]];
        assert_eq!(lists, [&json!([]); 3], "{seen}");
    }
    assert_eq!((&compared["dry_run"], &repaired["unsettled"]), (&json!(true), &json!(0)), "{repaired}");
    let rates = operator.take("rates", "").await;
    let quota = operator.take("quota", "").await;
    let names = |seen: &Value| seen.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&rates), ["failure", "timeout"]);
    assert_eq!(quota["sandboxes_share"], json!(null), "nobody has set a limit here");
    assert_eq!(names(&quota), ["disk_share", "memory_share", "processes_share", "sandboxes_share"]);
    let health = operator.until("health", "", |health| health["stuck"] == 0).await;
    assert_eq!(health["status"], "ok", "{health}");
}

async fn cleanups(operator: &Operator) {
    let said = operator.take("cleanup_dry_run", "").await;
    let done = operator.take("cleanup", "").await;
    assert_eq!((&said["found"], &done["found"]), (&json!([]), &json!([])), "they are young: {done}");
    operator.until("cleanup_schedule", "", |turns| turns.as_array().unwrap().len() == 4).await;
    let runs = operator.take("cleanup_runs", "").await;
    assert_eq!((&runs[0]["layer"], &runs[0]["outcome"]), (&json!("scheduled"), &json!("done")), "{runs}");
    let said = operator.take("emergency_dry_run", "").await;
    let done = operator.take("emergency", "").await;
    assert_eq!((&said["found"], done["ended"].as_array().unwrap().len()), (&done["found"], 3), "{done}");
}

async fn diagnoses(operator: &Operator, [busy, hung, leaking, silent]: [&str; 4]) {
    let says = |words: &'static str| move |seen: &Value| seen["diagnosis"].as_str().unwrap().contains(words);
    let seen = operator.until("resources", leaking, says("memory leak")).await;
    assert!(seen["memory_mb"].as_f64().unwrap() > 1.0, "{seen}");
    let seen = operator.until("resources", busy, says("infinite loop or heavy computation")).await;
    assert!(seen["cpu_percent"].as_f64().unwrap() >= 50.0, "{seen}");
    let seen = operator.until("resources", hung, says("hung on I/O or deadlock")).await;
    assert!(seen["cpu_percent"].as_f64().unwrap() <= 3.0, "{seen}");
    assert!(seen["operations"].is_u64() && seen["duration_ms"].as_u64().unwrap() >= 5_000, "{seen}");
    operator.until("resources", silent, says("no operations")).await;
}
