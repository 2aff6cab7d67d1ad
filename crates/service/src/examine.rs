//! The detailed examination of a sandbox: its record, deadlines, probes and diagnosed problems.

use pinfold_api::{Examination, Probe, Sandbox, State, Trouble, UpcomingDeadline};
use pinfold_lifecycle::{Lease, Life, SandboxId, Timestamp};
use pinfold_provider::{OutputEntry, ProbeReport, ReadPosition};
use pinfold_store::{Row, StoredSandbox};

use super::convert::rfc3339;
use super::diagnosis::{Observations, diagnose};
use super::failure::cause_name;
use super::resources::UsageSample;
use super::{Failure, Service, instance_of};

/// How many of the last executions' outputs are read, and how much of them.
const LAST_COMMANDS: usize = 3;
const LAST_BYTES: usize = 64 * 1024;

impl Service {
    /// Runs every probe that does not change the sandbox.
    pub async fn examine(&self, id: SandboxId) -> Result<Examination, Failure> {
        let row = self.row(id).await?;
        let now = self.now();
        let sandbox = self.sandbox(id).await?;
        let stored = match &row {
            Row::Readable(stored) if !stored.sandbox.is_settled() => Some(stored),
            Row::Readable(_) | Row::Unreadable(_) => None,
        };
        let (mut probes, mut observed) = (Vec::new(), Observations::default());
        if let Some(stored) = stored {
            // Before the probes, since their own processes would be observed too.
            let sample = self.sample_usage(stored).await.ok();
            observed = Observations {
                written: self.last_output(id).await,
                ..self.observe(stored, sample.as_ref()).await
            };
            probes = self.host.provider.inspect().examine(instance_of(stored)).await;
        }
        let troubles = diagnose(&sandbox, &probes, &observed);
        Ok(Examination {
            due: stored.map(|stored| due(stored, now)).unwrap_or_default(),
            probes: probes.into_iter().map(probe).collect(),
            verdict: verdict(&sandbox, &troubles),
            troubles,
            sandbox,
        })
    }

    /// Observations from outside the sandbox, cheap enough for a request every second. Values that cannot be read are
    /// left out.
    pub(super) async fn observe(&self, stored: &StoredSandbox, sample: Option<&UsageSample>) -> Observations {
        let usage = sample.map(|sample| sample.usage).unwrap_or_default();
        let inside = self.host.provider.inspect().processes(instance_of(stored)).await;
        Observations {
            processes: usage.processes.zip(stored.spec.limits.processes),
            signs: sample.map(|sample| sample.signs),
            inside: inside.unwrap_or_default(),
            written: String::new(),
        }
    }

    /// The end of the output of its last executions.
    async fn last_output(&self, id: SandboxId) -> String {
        let commands = self.host.store.executions(id).await.unwrap_or_default();
        let last = commands.into_iter().rev().take(LAST_COMMANDS).map(|it| it.execution.id);
        let output = self.host.provider.output();
        let mut readers: Vec<_> = last.map(|it| output.reader(id, it, ReadPosition::default())).collect();
        let reading = tokio::task::spawn_blocking(move || {
            readers.reverse();
            let mut written = Vec::new();
            for reader in &mut readers {
                while let Ok(Some(entry)) = reader.next() {
                    if let OutputEntry::Chunk(piece) = entry {
                        written.extend(piece.bytes);
                    }
                    written.drain(..written.len().saturating_sub(LAST_BYTES));
                }
            }
            String::from_utf8_lossy(&written).into_owned()
        });
        reading.await.unwrap_or_default()
    }
}

fn due(stored: &StoredSandbox, now: Timestamp) -> Vec<UpcomingDeadline> {
    let sandbox = &stored.sandbox;
    let live = match &sandbox.lease {
        Lease::Live(live) => Some(live),
        _ => None,
    };
    let is_starting = matches!(sandbox.life, Life::Wanted) && live.is_none();
    let known = [
        ("the next automatic action", sandbox.next_deadline()),
        ("start deadline", is_starting.then_some(sandbox.start_by)),
        ("idle deadline", live.and_then(|live| live.idle_by)),
        ("next health check", live.map(|live| live.health.next_check)),
        ("maximum life", Some(sandbox.expires_at)),
    ];
    let due = known.into_iter().filter_map(|(what, at)| Some((what, at?)));
    due.map(|(what, at)| UpcomingDeadline {
        what: what.to_owned(),
        at: rfc3339(at),
        left_ms: at.ms_since(now),
    })
    .collect()
}

fn verdict(sandbox: &Sandbox, troubles: &[Trouble]) -> String {
    let is_over = matches!(sandbox.status.state, State::Completed | State::Failed | State::Terminated);
    match troubles.first() {
        _ if is_over => format!("it has ended: {}", sandbox.cause.map(cause_name).unwrap_or_default()),
        Some(trouble) => trouble.means.clone(),
        None => "all probes passed".to_owned(),
    }
}

fn probe(it: ProbeReport) -> Probe {
    Probe {
        probe: it.probe.to_owned(),
        passed: it.passed,
        answer: it.answer,
        took_ms: (it.took.as_secs_f64() * 1e6).round() / 1e3,
    }
}
