//! One body, looked at closely: each low-level probe with its raw answer and its time, and what to do about it.

use std::fs;
use std::time::Duration;

use pinfold_keeper::wire::Request;
use pinfold_lifecycle::{Finding, Probed};
use pinfold_provider::{Body, Provider};
use tokio::time::Instant;

use crate::control::ask;
use crate::hold::{self, Keeper};
use crate::places::Places;
use crate::provider::LinuxProvider;

/// One probe of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Examined {
    pub probe: &'static str,
    pub passed: bool,
    pub answer: String,
    pub took: Duration,
    /// What to do where it did not pass.
    pub advice: Option<&'static str>,
}

const END_IT: &str = "pinfold stop --force, and make another; what it wrote is in its log";

impl LinuxProvider {
    /// Everything that can be tried without harm to it.
    pub async fn examine(&self, body: Body) -> Vec<Examined> {
        let places = self.grounds.of(body);
        vec![
            timed("process 1", END_IT, async { process(&places) }).await,
            timed("control ping", END_IT, self.try_ping(&places)).await,
            timed("executions", END_IT, async { raw(ask(&places, &Request::List).await) }).await,
            timed("files and a command", END_IT, async { judged(self.probe(body).await) }).await,
            timed("cgroups", "pinfold reconcile", async { self.groups_told(&places) }).await,
            timed("mounts, directories, sockets", "pinfold reconcile", async { Ok(self.things(&places)) })
                .await,
        ]
    }

    async fn try_ping(&self, places: &Places) -> Result<String, String> {
        if self.is_whole(places).await {
            return Ok("it answers with the secret that only it was born with".to_owned());
        }
        let answer = ask(places, &Request::Ping { nonce: places.name.clone() }).await;
        let secret = fs::read_to_string(places.secret());
        // The secret itself is nobody's business.
        let shown = raw(answer).unwrap_or_else(|why| why);
        Err(secret.map_or(shown.clone(), |secret| shown.replace(&secret, "…")))
    }

    fn groups_told(&self, places: &Places) -> Result<String, String> {
        let group = self.groups_of(places).map_err(|error| error.to_string())?;
        let paths = group.look().map_err(|error| error.to_string())?;
        if paths.is_empty() {
            return Ok("none; its keeper alone holds it together".to_owned());
        }
        let processes = group.processes().map_err(|error| error.to_string())?;
        Ok(format!("{} groups, {} processes, {:?}", paths.len(), processes.len(), group.breaches()))
    }

    fn things(&self, places: &Places) -> String {
        let shown = |result: Finding| match result {
            Finding::Absent => "absent",
            Finding::Present => "present",
            Finding::Unknown => "unknown",
        };
        let checks = self.checks(places);
        checks
            .iter()
            .map(|check| format!("{} {}", check.kind, shown(check.result)))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

fn process(places: &Places) -> Result<String, String> {
    match hold::keeper(places).map_err(|error| error.to_string())? {
        Keeper::Alive(pid, began) => Ok(format!("{pid}, began at tick {began}")),
        Keeper::Unborn => Err("it is just being born".to_owned()),
        Keeper::Nobody => Err("it is gone, or never was".to_owned()),
    }
}

fn raw<T: std::fmt::Debug, E: std::fmt::Display>(answer: Result<T, E>) -> Result<String, String> {
    answer.map(|answer| format!("{answer:?}")).map_err(|error| error.to_string())
}

fn judged(probed: Probed) -> Result<String, String> {
    match probed {
        Probed::Passed => Ok("a file was written, read and removed, and `true` ran".to_owned()),
        Probed::Failed(failure) => Err(format!("{failure:?}")),
        Probed::Unknown { why } => Err(why),
    }
}

async fn timed(
    probe: &'static str,
    advice: &'static str,
    work: impl Future<Output = Result<String, String>>,
) -> Examined {
    let began = Instant::now();
    let answer = work.await;
    let passed = answer.is_ok();
    Examined {
        probe,
        passed,
        answer: answer.unwrap_or_else(|why| why),
        took: began.elapsed(),
        advice: (!passed).then_some(advice),
    }
}
