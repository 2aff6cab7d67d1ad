//! `stop`: from the decision to the proof that a thousand unwilling processes are gone, next to a bare kill of a
//! control group with as many.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use pinfold_bench_report::{Figures, at_most, now};
use pinfold_lifecycle::{Cause, Limits};

use crate::Session;
use crate::bare_group::BareGroup;
use crate::host::{Host, LIMITS};
use crate::peers::Traces;
use crate::table::{print_figures, print_header, print_titles, ratio};

const TO_BARE: f64 = 2.0;
/// The crowd, and a little room for the shell around it.
const LIMIT: u64 = 1_010;
/// A bomb counts as live from here on.
const LIVE: u64 = 950;
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A shell that cannot fork becomes a new one by its exit trap, so that none ever gives up. The first one only waits:
/// an execution ends with it.
pub(crate) const FORK_BOMB: &str = concat!(
    "echo ready; export S='trap \"exec sh -c \\\"\\$S\\\"\" EXIT; while :; do sh -c \"$S\" & done'; ",
    "sh -c \"$S\" 2>/dev/null & exec sleep 100000"
);

struct Horde {
    name: &'static str,
    script: &'static str,
    grows: bool,
}

const HORDES: [Horde; 2] = [
    Horde {
        name: "1,000 processes that ignore SIGTERM",
        script: "trap '' TERM; i=0; while [ $i -lt 1000 ]; do sleep 100000 & i=$((i+1)); done; echo ready; wait",
        grows: false,
    },
    Horde { name: "a live fork bomb of 1,000", script: FORK_BOMB, grows: true },
];

pub(crate) fn run(session: &Session) -> Result<()> {
    let _traces = Traces;
    let host = Arc::new(session.runtime.block_on(Host::begin())?);
    let measured = measure(session, &host);
    let ended = session.runtime.block_on(host.end());
    measured?;
    ended
}

fn measure(session: &Session, host: &Arc<Host>) -> Result<()> {
    print_header("decision to proven gone, grace 0; Pinfold's ends with a durable receipt", session)?;
    print_titles("");
    let mut ratios = Vec::new();
    for horde in HORDES {
        let (mut own, mut bare) = (Figures::default(), Figures::default());
        for _ in 0..session.runs {
            session.interrupt.check()?;
            own.add(pinfold(session, host, &horde)?);
            bare.add(bare_kill(&horde)?);
        }
        print_figures(&format!("{}, Pinfold", horde.name), &own);
        print_figures("    bare cgroup.kill, wait, rmdir", &bare);
        ratios.push((horde.name, ratio(own.p50(), bare.p50()), ratio(own.p99(), bare.p99())));
    }
    println!();
    for (name, p50, p99) in ratios {
        println!("{name}, p50: {p50:.2}x");
        at_most(&format!("{name}, p99"), p99, TO_BARE, "x");
    }
    Ok(())
}

fn pinfold(session: &Session, host: &Arc<Host>, horde: &Horde) -> Result<Duration> {
    let limits = Limits { processes: Some(LIMIT), memory_mb: Some(2_048), ..LIMITS };
    let (host, script, grows) = (host.clone(), horde.script, horde.grows);
    session.run(async move {
        let sandbox = host.ready(limits).await?;
        let execution = host.execute(sandbox, &["sh", "-c", script]).await?;
        host.first_byte(sandbox, execution).await?;
        let begun = now();
        while grows && host.engine.usage(sandbox).await?.processes.is_none_or(|it| it < LIVE) {
            ensure!(begun.elapsed() < PATIENCE, "the bomb does not grow");
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let begun = now();
        host.stop(sandbox, Cause::StoppedByUser).await?;
        Ok(begun.elapsed())
    })
}

fn bare_kill(horde: &Horde) -> Result<Duration> {
    let mut group = BareGroup::make(LIMIT)?;
    group.start(horde.script)?;
    let begun = now();
    while horde.grows && group.processes()? < LIVE {
        ensure!(begun.elapsed() < PATIENCE, "the bomb does not grow");
        std::thread::sleep(LOOK_EVERY);
    }
    group.end()
}
