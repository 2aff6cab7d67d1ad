//! Servers that are killed or replaced while executions run: no execution and no line of output is lost.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pinfold_api::{Cause, ExecRequest, OutputEvent};
use pinfold_client::{Client, Completion};
use pinfold_test_support::until;
use rustix::process::Signal;
use tokio::task::JoinHandle;

use crate::fixture::{Fixture, fixtures};
use crate::serve::{Server, request, text_of};

const SANDBOXES: usize = 5;
const IN_EACH: usize = 4;
const LINES: u64 = 300;
const TIMEOUT: Duration = Duration::from_secs(90);

fn counting_request() -> ExecRequest {
    let script = format!("i=1; while [ $i -le {LINES} ]; do echo $i; i=$((i+1)); sleep 0.02; done");
    ExecRequest { background: true, ..request(&script) }
}

fn start_counting(server: &Server, sandbox: &str) -> String {
    let begun = server.ask(async |client| client.exec(sandbox, &counting_request()).await.unwrap());
    match begun {
        Completion::Pending(execution) => execution.execution_id,
        Completion::Done(result) => panic!("it has ended already: {result:?}"),
    }
}

/// The current server.
type Current = Arc<Mutex<Arc<Client>>>;

/// Reads one execution to its end, resuming after the last sequence number when the connection breaks.
struct OutputReader {
    events: Arc<Mutex<Vec<OutputEvent>>>,
    task: JoinHandle<()>,
}

impl OutputReader {
    fn begin(runtime: &tokio::runtime::Runtime, current: Current, execution: String) -> Self {
        let events = Arc::new(Mutex::new(Vec::new()));
        let read = events.clone();
        let task = runtime.spawn(async move {
            while !has_ended(&read) {
                let client = current.lock().unwrap().clone();
                let after = read.lock().unwrap().last().map_or(0, OutputEvent::seq);
                if let Ok(mut stream) = client.follow(&execution, after).await {
                    while let Ok(Some(event)) = stream.next().await {
                        // The server announces its shutdown.
                        if !matches!(event, OutputEvent::Error { .. }) {
                            read.lock().unwrap().push(event);
                        }
                    }
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        Self { events, task }
    }

    /// Counts lines, since several lines can come in one event.
    fn lines(&self) -> usize {
        self.events.lock().unwrap().iter().map(|event| text_of(event).lines().count()).sum()
    }
}

fn has_ended(read: &Mutex<Vec<OutputEvent>>) -> bool {
    matches!(read.lock().unwrap().last(), Some(OutputEvent::Exit { .. }))
}

/// Checks that every line comes once and in order, without gaps, before the exit event.
fn assert_complete(events: &[OutputEvent]) {
    let text: String = events.iter().map(text_of).collect();
    let expected: String = (1..=LINES).map(|number| format!("{number}\n")).collect();
    assert_eq!(text, expected);
    let numbers: Vec<_> = events.iter().map(OutputEvent::seq).collect();
    assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "{numbers:?}");
    assert!(
        matches!(events.last(), Some(OutputEvent::Exit { exit_code: Some(0), .. })),
        "{:?}",
        events.last()
    );
}

#[test]
fn twenty_executions_lose_and_repeat_no_line_across_two_server_kills() {
    for fixture in fixtures() {
        let server = Server::begin(&fixture, &[]);
        let sandboxes: Vec<_> = (0..SANDBOXES).map(|_| server.create()).collect();
        let executions: Vec<_> =
            sandboxes.iter().flat_map(|id| (0..IN_EACH).map(|_| start_counting(&server, id))).collect();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let current: Current = Arc::new(Mutex::new(Arc::new(server.fresh_client())));
        let readings: Vec<_> =
            executions.iter().map(|id| OutputReader::begin(&runtime, current.clone(), id.clone())).collect();

        let mut server = server;
        for lines in [10, 80] {
            until("every reader has read", || readings.iter().all(|reading| reading.lines() >= lines));
            assert!(readings.iter().any(|reading| !has_ended(&reading.events)), "all ended before the kill");
            server.end_with(Signal::KILL);
            server = Server::begin(&fixture, &[]);
            *current.lock().unwrap() = Arc::new(server.fresh_client());
        }

        for reading in readings {
            runtime.block_on(async { tokio::time::timeout(TIMEOUT, reading.task).await.unwrap().unwrap() });
            assert_complete(&reading.events.lock().unwrap());
        }
        for id in &executions {
            let ended = server.ask(async |client| client.execution(id).await.unwrap());
            assert_eq!((ended.cause, ended.exit_code), (Some(Cause::Completed), Some(0)));
        }
        let present = server.ask(async |client| client.stats().await.unwrap().present);
        assert_eq!(present, SANDBOXES as u64);
    }
}

/// Checks that the sandboxes ended with cause `shutdown` and are proven gone.
fn assert_ended_with_receipt(fixture: &Fixture, sandboxes: &[String]) {
    let next = Server::begin(fixture, &[]);
    for id in sandboxes {
        let shown = next.ask(async |client| client.sandbox(id).await.unwrap());
        assert_eq!(shown.cause, Some(Cause::Shutdown));
        assert!(shown.receipt.unwrap().checks.len() >= 6);
    }
    let stats = next.ask(async |client| client.stats().await.unwrap());
    assert_eq!((stats.present, stats.total_created), (0, sandboxes.len() as u64));
}

#[test]
fn another_program_adopts_and_stops_a_servers_sandboxes() {
    for fixture in fixtures() {
        let old = Server::begin(&fixture, &["--on-exit", "keep"]);
        let sandboxes: Vec<_> = (0..SANDBOXES).map(|_| old.create()).collect();
        let executions: Vec<_> = sandboxes.iter().map(|id| start_counting(&old, id)).collect();
        assert_eq!(old.end_with(Signal::TERM), Some(0));

        let new = Server::begin_as("pinfold-of-tomorrow", &fixture, &["--on-exit", "stop"]);

        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let current: Current = Arc::new(Mutex::new(Arc::new(new.fresh_client())));
        for id in executions {
            let reading = OutputReader::begin(&runtime, current.clone(), id);
            runtime.block_on(async { tokio::time::timeout(TIMEOUT, reading.task).await.unwrap().unwrap() });
            assert_complete(&reading.events.lock().unwrap());
        }
        // Some sandboxes are busy when they are stopped.
        sandboxes.iter().for_each(|id| drop(start_counting(&new, id)));
        assert_eq!(new.end_with(Signal::TERM), Some(0));
        assert!(fixture.is_clean());
        assert_ended_with_receipt(&fixture, &sandboxes);
    }
}
