//! `stop`: from the stop request to the receipt for a thousand processes that resist, compared with a plain cgroup
//! kill of as many.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use pinfold_bench_report::{Measurements, at_most, now};
use pinfold_lifecycle::{Cause, Limits};

use crate::Session;
use crate::bare_group::BareGroup;
use crate::host::{Host, LIMITS};
use crate::peers::LeftoverCgroups;
use crate::table::{print_header, print_measurements, print_titles, ratio};

const TO_BARE: f64 = 2.0;
/// A thousand processes, and a few for the shell around them.
const LIMIT: u64 = 1_010;
/// A fork bomb counts as running from here on.
const LIVE: u64 = 950;
const TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A shell that cannot fork re-executes itself by its exit trap, so that none gives up. The first one only waits:
/// the execution ends with it.
pub(crate) const FORK_BOMB: &str = concat!(
    "echo ready; export S='trap \"exec sh -c \\\"\\$S\\\"\" EXIT; while :; do sh -c \"$S\" & done'; ",
    "sh -c \"$S\" 2>/dev/null & exec sleep 100000"
);

struct ProcessLoad {
    name: &'static str,
    script: &'static str,
    grows: bool,
}

const PROCESS_LOADS: [ProcessLoad; 2] = [
    ProcessLoad {
        name: "1,000 processes that ignore SIGTERM",
        script: "trap '' TERM; i=0; while [ $i -lt 1000 ]; do sleep 100000 & i=$((i+1)); done; echo ready; wait",
        grows: false,
    },
    ProcessLoad { name: "a live fork bomb of 1,000", script: FORK_BOMB, grows: true },
];

pub(crate) fn run(session: &Session) -> Result<()> {
    let _traces = LeftoverCgroups;
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
    for horde in PROCESS_LOADS {
        let (mut own, mut bare) = (Measurements::default(), Measurements::default());
        for _ in 0..session.runs {
            session.interrupt.check()?;
            own.add(pinfold(session, host, &horde)?);
            bare.add(bare_kill(&horde)?);
        }
        print_measurements(&format!("{}, Pinfold", horde.name), &own);
        print_measurements("    bare cgroup.kill, wait, rmdir", &bare);
        ratios.push((horde.name, ratio(own.p50(), bare.p50()), ratio(own.p99(), bare.p99())));
    }
    println!();
    for (name, p50, p99) in ratios {
        println!("{name}, p50: {p50:.2}x");
        at_most(&format!("{name}, p99"), p99, TO_BARE, "x");
    }
    Ok(())
}

fn pinfold(session: &Session, host: &Arc<Host>, horde: &ProcessLoad) -> Result<Duration> {
    let limits = Limits { processes: Some(LIMIT), memory_mb: Some(2_048), ..LIMITS };
    let (host, script, grows) = (host.clone(), horde.script, horde.grows);
    session.run(async move {
        let sandbox = host.ready(limits).await?;
        let execution = host.execute(sandbox, &["sh", "-c", script]).await?;
        host.first_byte(sandbox, execution).await?;
        let begun = now();
        while grows && host.engine.usage(sandbox).await?.processes.is_none_or(|it| it < LIVE) {
            ensure!(begun.elapsed() < TIMEOUT, "the bomb does not grow");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        let begun = now();
        host.stop(sandbox, Cause::StoppedByUser).await?;
        Ok(begun.elapsed())
    })
}

fn bare_kill(horde: &ProcessLoad) -> Result<Duration> {
    let mut group = BareGroup::make(LIMIT)?;
    group.start(horde.script)?;
    let begun = now();
    while horde.grows && group.processes()? < LIVE {
        ensure!(begun.elapsed() < TIMEOUT, "the bomb does not grow");
        std::thread::sleep(POLL_INTERVAL);
    }
    group.end()
}
