//! Output as a resumable stream of numbered events.

use pinfold_api::{ExecRequest, OutputEvent};
use pinfold_client::{Client, ClientError, Events};
use pinfold_http::ServerConfig;
use serde_json::json;

use crate::fixture::{sh, with_fast_rechecks, with_server};

const COUNTING: &str = "i=1; while [ $i -le 60 ]; do echo $i; i=$((i+1)); sleep 0.01; done";

fn request(script: &str) -> ExecRequest {
    serde_json::from_value(sh(script)).unwrap()
}

fn text_of(event: &OutputEvent) -> &str {
    match event {
        OutputEvent::Stdout { text: Some(text), .. } => text,
        _ => "",
    }
}

async fn rest_of(events: &mut Events) -> Vec<OutputEvent> {
    let mut rest = Vec::new();
    while let Some(event) = events.next().await.unwrap() {
        rest.push(event);
    }
    rest
}

#[tokio::test(flavor = "multi_thread")]
async fn resumed_stream_loses_and_repeats_nothing() {
    with_server(|fixture| async move {
        let (client, id) = (fixture.client(), fixture.sandbox().await);
        let mut events = client.exec_streamed(&id, &request(COUNTING)).await.unwrap();
        let execution = events.execution().unwrap().to_owned();
        let mut read = Vec::new();
        while read.len() < 10 {
            read.push(events.next().await.unwrap().unwrap());
        }
        // Break the connection.
        drop(events);

        let mut later = client.follow(&execution, read.last().unwrap().seq()).await.unwrap();
        read.extend(rest_of(&mut later).await);

        let text: String = read.iter().map(text_of).collect();
        let expected: String = (1..=60).map(|number| format!("{number}\n")).collect();
        assert_eq!(text, expected);
        let numbers: Vec<_> = read.iter().map(OutputEvent::seq).collect();
        assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{numbers:?}");
        assert!(matches!(read.last(), Some(OutputEvent::Exit { exit_code: Some(0), .. })));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_can_be_read_again_after_the_end_and_after_the_stop() {
    with_server(|fixture| async move {
        let (client, id) = (fixture.client(), fixture.sandbox().await);
        let mut events = client.exec_streamed(&id, &request("echo one; echo two >&2; exit 4")).await.unwrap();
        let execution = events.execution().unwrap().to_owned();
        let live = rest_of(&mut events).await;
        let after_the_end = rest_of(&mut client.follow(&execution, 0).await.unwrap()).await;
        fixture.delete(&format!("/api/sandbox/{id}?force=1")).await;

        let after_the_stop = rest_of(&mut client.follow(&execution, 0).await.unwrap()).await;
        let exit = live.last().unwrap().seq();
        let nothing = rest_of(&mut client.follow(&execution, exit).await.unwrap()).await;

        assert!(live.len() >= 3 && matches!(live.last(), Some(OutputEvent::Exit { exit_code: Some(4), .. })));
        assert_eq!((&after_the_end, &after_the_stop), (&live, &live));
        assert_eq!(nothing, []);
        let page = client.output(&execution, 0).await.unwrap();
        assert_eq!((page.events, page.next, page.ended), (live, exit, true));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_readers_see_the_same_output() {
    with_server(|fixture| async move {
        let (client, id) = (fixture.client(), fixture.sandbox().await);
        let mut first = client.exec_streamed(&id, &request(COUNTING)).await.unwrap();
        let execution = first.execution().unwrap().to_owned();
        let mut second = client.follow(&execution, 0).await.unwrap();

        let (one, other) = tokio::join!(rest_of(&mut first), rest_of(&mut second));

        assert_eq!(one, other);
        assert!(matches!(one.last(), Some(OutputEvent::Exit { .. })));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_bytes_that_are_not_utf8_arrive_unchanged() {
    with_server(|fixture| async move {
        let id = fixture.sandbox().await;

        let ran = fixture.sh(&id, r"printf '\377\000'; echo fine >&2").await;

        assert_eq!((&ran["stdout_base64"], &ran["stderr"]), (&json!("/wA="), &json!("fine\n")));
        assert_eq!(ran["stdout"], json!(null));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_tells_stream_readers_to_reconnect() {
    with_server(|fixture| async move {
        let (client, id) = (fixture.client(), fixture.sandbox().await);
        let mut events = client.exec_streamed(&id, &request("echo begun; sleep 60")).await.unwrap();
        let begun = events.next().await.unwrap().unwrap();

        fixture.end().await;
        let rest = rest_of(&mut events).await;

        assert_eq!(text_of(&begun), "begun\n");
        assert!(matches!(rest[..], [OutputEvent::Error { seq: 1, .. }]), "{rest:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_ends_when_its_token_is_revoked() {
    with_fast_rechecks(ServerConfig::default(), |fixture| async move {
        let id = fixture.sandbox().await;
        let execution = fixture.sh_in_background(&id, sh("echo on; exec sleep 1000")).await;
        let (token, secret) = fixture.token("viewer").await;
        let viewer = Client::new(&fixture.url(""), &secret).unwrap();
        let mut events = viewer.follow(&execution, 0).await.unwrap();
        let first = events.next().await.unwrap().unwrap();

        fixture.delete(&format!("/api/tokens/{token}")).await;
        let rest = rest_of(&mut events).await;

        assert_eq!((text_of(&first), rest), ("on\n", Vec::new()));
        let back = viewer.follow(&execution, first.seq()).await.err();
        assert!(matches!(back, Some(ClientError::Refused { status: 401, .. })), "{back:?}");
    })
    .await;
}
