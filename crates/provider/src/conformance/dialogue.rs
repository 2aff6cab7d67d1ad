//! Talking to what runs: signals that arrive, input that is accepted once, terminals that have a size.

use pinfold_lifecycle::{ExecutionId, OutcomeKind};

use super::Deed;
use super::site::Site;
use crate::{Fed, Feed, FeedError, InstanceId, ResizeError, SignalError, TerminalSize};

const TERM: i32 = 15;
const SIZE: TerminalSize = TerminalSize { columns: 100, rows: 40 };

async fn feed(site: &Site, to: (InstanceId, ExecutionId), at: u64, bytes: &[u8], close: bool) -> Fed {
    let fed = site.provider.feed(to.0, to.1, Feed { at, bytes, close }).await;
    fed.unwrap_or_else(|error| panic!("{} could not be fed: {error}", to.1))
}

pub(super) async fn a_signal_ends_what_takes_no_notice_of_it(site: Site) {
    let body = site.started().await;
    let (signalled, other) =
        (site.run(body, Deed::RunUntilKilled).await, site.run(body, Deed::RunUntilKilled).await);

    assert_eq!(site.provider.signal(body, signalled, TERM).await, Ok(()));

    let outcome = site.outcome(body, signalled).await;
    assert_eq!((outcome.kind, outcome.exit_code), (OutcomeKind::Exited, Some(128 + TERM)));
    site.runs(body, other).await;
}

pub(super) async fn only_what_runs_is_signalled_and_only_by_signals(site: Site) {
    let body = site.started().await;
    let running = site.run(body, Deed::RunUntilKilled).await;
    let ended = site.run(body, Deed::Succeed).await;
    site.outcome(body, ended).await;

    let unknown = site.provider.signal(body, site.ground.fresh_execution(), TERM).await;
    assert_eq!(unknown, Err(SignalError::NoSuchExecution));
    assert_eq!(site.provider.signal(body, ended, TERM).await, Err(SignalError::NotRunning));
    for signal in [-1, 0, 1_000] {
        let answer = site.provider.signal(body, running, signal).await;
        assert_eq!(answer, Err(SignalError::NoSuchSignal { signal }));
    }
    site.runs(body, running).await;
}

pub(super) async fn what_is_fed_again_is_accepted_once(site: Site) {
    let body = site.started().await;
    let to = (body, site.run(body, Deed::ReadUntilClosed).await);

    for process in [&site, &site.another_process()] {
        assert_eq!(feed(process, to, 0, b"one", false).await, Fed { accepted: 3, closed: false });
    }

    assert_eq!(feed(&site, to, 1, b"ne two", false).await, Fed { accepted: 7, closed: false });
    site.runs(body, to.1).await;
}

pub(super) async fn what_lies_beyond_a_gap_is_not_accepted(site: Site) {
    let body = site.started().await;
    let to = (body, site.run(body, Deed::ReadUntilClosed).await);

    let beyond = feed(&site, to, 5, b"later", true).await;

    assert_eq!(beyond, Fed { accepted: 0, closed: false });
    site.runs(body, to.1).await;
}

pub(super) async fn closing_its_input_ends_what_reads_it(site: Site) {
    let body = site.started().await;
    let to = (body, site.run(body, Deed::ReadUntilClosed).await);
    feed(&site, to, 0, b"all", false).await;
    site.runs(body, to.1).await;

    feed(&site, to, 3, b" there is", true).await;

    assert_eq!(site.outcome(body, to.1).await.exit_code, Some(0));
    let late = site.provider.feed(body, to.1, Feed { at: 12, bytes: b"late", close: false }).await;
    assert_eq!(late, Err(FeedError::NotRunning));
}

pub(super) async fn only_what_has_an_input_is_fed(site: Site) {
    let body = site.started().await;
    let without = site.run(body, Deed::RunUntilKilled).await;
    let bytes = Feed { at: 0, bytes: b"lost", close: false };

    let unknown = site.provider.feed(body, site.ground.fresh_execution(), bytes).await;

    assert_eq!(unknown, Err(FeedError::NoSuchExecution));
    assert_eq!(site.provider.feed(body, without, bytes).await, Err(FeedError::NoInput));
}

pub(super) async fn only_a_terminal_is_resized(site: Site) {
    let body = site.started().await;
    let (with, without) =
        (site.run(body, Deed::HoldTerminal).await, site.run(body, Deed::RunUntilKilled).await);

    let unknown = site.provider.resize(body, site.ground.fresh_execution(), SIZE).await;

    assert_eq!(unknown, Err(ResizeError::NoSuchExecution));
    assert_eq!(site.provider.resize(body, with, SIZE).await, Ok(()));
    assert_eq!(site.provider.resize(body, without, SIZE).await, Err(ResizeError::NoTerminal));
    site.runs(body, with).await;
}
