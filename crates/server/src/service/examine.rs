//! One sandbox, looked at closely: what is recorded, what is due, each thing that can be tried, and what is wrong.

use pinfold_api::{Due, Examination, Probe, Sandbox, State, Trouble};
use pinfold_keeper::log::Entry;
use pinfold_lifecycle::{Lease, Life, SandboxId, Timestamp};
use pinfold_linux::Examined;
use pinfold_store::{Row, Store, Stored};

use super::failure::spelled;
use super::resources::Looks;
use super::troubles::{Seen, troubles};
use super::words::moment;
use super::{Failure, Service, body_of};

/// Of how many of its last commands the output is looked at, and how much of it.
const LAST_COMMANDS: usize = 3;
const LAST_BYTES: usize = 64 * 1024;

impl Service {
    /// Tries everything that can be tried without harm to it.
    pub async fn examine(&self, id: SandboxId) -> Result<Examination, Failure> {
        let row = self.row(id).await?;
        let now = self.now();
        let sandbox = self.sandbox(id).await?;
        let stored = match &row {
            Row::Readable(stored) if !stored.sandbox.is_settled() => Some(stored),
            Row::Readable(_) | Row::Unreadable(_) => None,
        };
        let (mut probes, mut seen) = (Vec::new(), Seen::default());
        if let Some(stored) = stored {
            // Before anything is tried: what is tried is seen inside too.
            let looks = self.look_twice(stored).await.ok();
            seen = Seen { written: self.last_written(id).await, ..self.see(stored, looks.as_ref()) };
            probes = self.host.provider.examine(body_of(stored)).await;
        }
        let troubles = troubles(&sandbox, &probes, &seen);
        Ok(Examination {
            due: stored.map(|stored| due(stored, now)).unwrap_or_default(),
            probes: probes.into_iter().map(probe).collect(),
            verdict: verdict(&sandbox, &troubles),
            troubles,
            sandbox,
        })
    }

    /// What can be seen from outside without asking anybody inside and without reading much, since some ask for it
    /// every second. What cannot is left out.
    pub(super) fn see(&self, stored: &Stored, looks: Option<&Looks>) -> Seen {
        let usage = looks.map(|looks| looks.usage).unwrap_or_default();
        Seen {
            processes: usage.processes.zip(stored.spec.limits.processes),
            signs: looks.map(|looks| looks.signs),
            inside: self.host.provider.inside(body_of(stored)).unwrap_or_default(),
            written: String::new(),
        }
    }

    /// The end of what its last commands wrote.
    async fn last_written(&self, id: SandboxId) -> String {
        let commands = self.host.store.executions(id).await.unwrap_or_default();
        let last = commands.into_iter().rev().take(LAST_COMMANDS).map(|it| it.execution.id);
        let mut readers: Vec<_> = last.map(|it| self.host.provider.output_of(id, it)).collect();
        let reading = tokio::task::spawn_blocking(move || {
            readers.reverse();
            let mut written = Vec::new();
            for reader in &mut readers {
                while let Ok(Some(entry)) = reader.next() {
                    if let Entry::Piece(piece) = entry {
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

fn verdict(sandbox: &Sandbox, troubles: &[Trouble]) -> String {
    let is_over = matches!(sandbox.status.state, State::Completed | State::Failed | State::Terminated);
    match troubles.first() {
        _ if is_over => format!("it has ended with {}", sandbox.cause.map(spelled).unwrap_or_default()),
        Some(trouble) => trouble.means.clone(),
        None => "all that was tried works".to_owned(),
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
