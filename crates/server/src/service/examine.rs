//! One sandbox, looked at closely: what is recorded, what is due, each thing that can be tried, and what to do.

use pinfold_api::{Due, Examination, Probe, Sandbox, State};
use pinfold_lifecycle::{Lease, Life, SandboxId, Timestamp};
use pinfold_linux::Examined;
use pinfold_store::{Row, Stored};

use super::failure::spelled;
use super::words::moment;
use super::{Failure, Service, body_of};

impl Service {
    /// Tries everything that can be tried without harm to it.
    pub async fn examine(&self, id: SandboxId) -> Result<Examination, Failure> {
        let row = self.row(id).await?;
        let now = self.now();
        let sandbox = self.sandbox(id).await?;
        let (due, examined) = match &row {
            Row::Readable(stored) if !stored.sandbox.is_settled() => {
                (due(stored, now), self.host.provider.examine(body_of(stored)).await)
            }
            Row::Readable(_) | Row::Unreadable(_) => (Vec::new(), Vec::new()),
        };
        let advice = advice(&sandbox, &examined);
        let verdict = verdict(&sandbox, &advice);
        let probes = examined.into_iter().map(probe).collect();
        Ok(Examination { sandbox, due, probes, verdict, advice })
    }
}

fn due(stored: &Stored, now: Timestamp) -> Vec<Due> {
    let sandbox = &stored.sandbox;
    let live = match &sandbox.lease {
        Lease::Live(live) => Some(live),
        _ => None,
    };
    let is_starting = matches!(sandbox.life, Life::Wanted) && live.is_none();
    let known = [
        ("the next thing that is due", sandbox.next_deadline()),
        ("it must be ready", is_starting.then_some(sandbox.start_by)),
        ("it counts as idle", live.and_then(|live| live.idle_by)),
        ("it is looked at again", live.map(|live| live.health.next_check)),
        ("the end of its life", Some(sandbox.expires_at)),
    ];
    let told = known.into_iter().filter_map(|(what, at)| Some((what, at?)));
    told.map(|(what, at)| Due { what: what.to_owned(), at: moment(at), left_ms: at.ms_since(now) }).collect()
}

fn advice(sandbox: &Sandbox, examined: &[Examined]) -> Vec<String> {
    let tried = examined.iter().filter_map(|it| Some(format!("{}: {}", it.probe, it.advice?)));
    let is_quarantined = sandbox.status.state == State::Quarantined;
    let quarantined = is_quarantined.then_some(
        "quarantined: see what is left above; `pinfold stop --attest --reason …` once it is gone".to_owned(),
    );
    let is_unreadable = sandbox.flags.iter().any(|flag| flag == "unreadable");
    let unreadable = is_unreadable.then_some("its record cannot be read: pinfold reconcile".to_owned());
    tried.chain(quarantined).chain(unreadable).collect()
}

fn verdict(sandbox: &Sandbox, advice: &[String]) -> String {
    let is_over = matches!(sandbox.status.state, State::Completed | State::Failed | State::Terminated);
    if is_over {
        format!("it has ended with {}", sandbox.cause.map(spelled).unwrap_or_default())
    } else if advice.is_empty() {
        "all that was tried works".to_owned()
    } else {
        "not all that was tried works".to_owned()
    }
}

fn probe(it: Examined) -> Probe {
    Probe {
        probe: it.probe.to_owned(),
        passed: it.passed,
        answer: it.answer,
        took_ms: (it.took.as_secs_f64() * 1e6).round() / 1e3,
    }
}
