//! Two servers and commands on one store: a stop through any of them gives the same receipt.

use std::time::{Duration, Instant};

use pinfold_api::{Cause, OutputEvent, Receipt};
use pinfold_client::{Client, ClientError, Completion, ServerFile};
use pinfold_test_support::until;
use serde_json::json;

use crate::fixture::{all_absent, fixtures};
use crate::serve::{Server, request};

const OF_EACH: usize = 4;
const AT_MOST: Duration = Duration::from_secs(5);
const WAIT_S: u64 = 30;

async fn stop(client: &Client, id: &str, force: bool) -> Receipt {
    match client.stop(id, force.then_some(0), WAIT_S).await.unwrap() {
        Completion::Done(receipt) => receipt,
        Completion::Pending(pending) => panic!("not gone in time: {pending:?}"),
    }
}

#[expect(clippy::disallowed_methods, reason = "a test of real processes takes real time")]
fn timed<T>(work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let done = work();
    assert!(begun.elapsed() < AT_MOST, "{:?}", begun.elapsed());
    done
}

fn is_proof(receipt: &Receipt) -> bool {
    all_absent(&json!(receipt))
}

#[test]
fn stop_through_either_server_or_a_command_works() {
    for fixture in fixtures() {
        let (one, other) = (Server::begin(&fixture, &[]), Server::begin(&fixture, &[]));
        for (owner, stopper) in [(&one, &other), (&other, &one)] {
            for _ in 0..OF_EACH {
                let id = owner.create();
                let busy = owner.ask(async |client| client.exec_streamed(&id, &request("sleep 1000")).await);

                let receipt = timed(|| stopper.ask(async |client| stop(client, &id, true).await));

                assert!(is_proof(&receipt), "{receipt:?}");
                let shown = owner.ask(async |client| client.sandbox(&id).await.unwrap());
                assert_eq!((shown.receipt, shown.cause), (Some(receipt), Some(Cause::StoppedByUser)));
                drop(busy);
            }
            let id = owner.create();
            let stopped = timed(|| fixture.document(&["stop", "--json", "--force", &id]));
            assert!(all_absent(&stopped[0]), "{stopped}");
        }
        assert!(fixture.is_clean());
    }
}

#[test]
fn stop_during_create_wins_with_one_receipt_for_all() {
    for fixture in fixtures() {
        let (one, other) = (Server::begin(&fixture, &[]), Server::begin(&fixture, &[]));
        for _ in 0..OF_EACH {
            let beside = other.fresh_client();
            let (created, first, second) = one.ask(async |client| {
                let find_and_stop = async |through: &Client, force| loop {
                    if let [found] = &through.list("").await.unwrap()[..] {
                        break (found.id.clone(), stop(through, &found.id, force).await);
                    }
                    tokio::task::yield_now().await;
                };
                let request = Default::default();
                let (create, stopped) = tokio::join!(client.create(&request), find_and_stop(&beside, false));
                (create, stopped.1, stop(client, &stopped.0, true).await)
            });

            match created {
                Ok(_) | Err(ClientError::Refused { status: 410, .. }) => {}
                Err(error) => panic!("{error:?}"),
            }
            assert!(is_proof(&first), "{first:?}");
            assert_eq!((first.cause, &first), (Cause::StoppedByUser, &second));
        }
        assert!(fixture.is_clean());
    }
}

#[test]
fn a_stop_during_an_execution_ends_it_with_its_cause() {
    for fixture in fixtures() {
        let (one, other) = (Server::begin(&fixture, &[]), Server::begin(&fixture, &[]));
        let id = one.create();

        let beside = other.fresh_client();
        let (receipt, last) = one.ask(async |client| {
            let mut events = client.exec_streamed(&id, &request("echo begun; sleep 1000")).await.unwrap();
            let mut last = events.next().await.unwrap();
            let receipt = stop(&beside, &id, true).await;
            while let Some(event) = events.next().await.unwrap() {
                last = Some(event);
            }
            (receipt, last)
        });

        assert!(is_proof(&receipt), "{receipt:?}");
        assert!(matches!(last, Some(OutputEvent::Exit { cause: Cause::StoppedByUser, .. })), "{last:?}");
    }
}

#[test]
fn concurrent_and_repeated_stops_return_the_same_receipt() {
    for fixture in fixtures() {
        let (one, other) = (Server::begin(&fixture, &[]), Server::begin(&fixture, &[]));
        let id = one.create();
        let stubborn = request("trap '' TERM; echo begun; while :; do sleep 1; done");

        let beside = other.fresh_client();
        let (gentle, forced, again) = one.ask(async |client| {
            let mut events = client.exec_streamed(&id, &stubborn).await.unwrap();
            events.next().await.unwrap();
            let (gentle, forced) = tokio::join!(stop(client, &id, false), stop(&beside, &id, true));
            (gentle, forced, stop(client, &id, true).await)
        });

        assert!(is_proof(&gentle), "{gentle:?}");
        assert_eq!((&gentle, &gentle), (&forced, &again));
        until("nothing is left", || fixture.is_clean());
    }
}

#[test]
fn end_of_one_server_leaves_the_other_to_be_found() {
    for fixture in fixtures() {
        let named = || ServerFile::read(&fixture.data()).unwrap().map(|file| file.address);
        let (first, second) = (Server::begin(&fixture, &[]), Server::begin(&fixture, &[]));
        assert_eq!(named(), Some(first.address()), "server.json names the first one");

        assert_eq!(second.end_with(rustix::process::Signal::TERM), Some(0));

        assert_eq!(named(), Some(first.address()), "the end of the second one leaves the first one's file");
        let third = Server::begin(&fixture, &[]);

        assert_eq!(first.end_with(rustix::process::Signal::TERM), Some(0));

        assert_eq!(named(), Some(third.address()), "the first one hands over to one that lives");
        assert_eq!(third.end_with(rustix::process::Signal::TERM), Some(0));
        assert_eq!((named(), ServerFile::all(&fixture.data())), (None, Vec::new()));
    }
}

#[test]
fn killed_first_server_leaves_the_second_to_be_found() {
    for fixture in fixtures() {
        let (first, second) = (Server::begin(&fixture, &[]), Server::begin(&fixture, &[]));
        let id = second.create();

        first.end_with(rustix::process::Signal::KILL);

        let stopped = fixture.document(&["stop", "--json", "--force", &id]);
        assert!(all_absent(&stopped[0]), "{stopped}");
        let alive: Vec<_> =
            ServerFile::all(&fixture.data()).into_iter().filter(ServerFile::is_alive).collect();
        assert_eq!(alive.iter().map(|file| &file.address).collect::<Vec<_>>(), [&second.address()]);
    }
}
