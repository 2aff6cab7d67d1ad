//! `POST /api/sandbox/run`: the sandbox ends with the request's connection.

use pinfold_api::{OutputEvent, RunRequest};
use serde_json::json;

use crate::fixture::{sh, with_server};

fn request(script: &str) -> RunRequest {
    serde_json::from_value(json!({ "sandbox": { "limits": { "memory_mb": 64 } }, "exec": sh(script) }))
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_or_printing_run_ends_when_its_caller_disconnects() {
    with_server(|fixture| async move {
        for script in ["echo here; exec sleep 1000", "while echo here; do sleep 0.01; done"] {
            let client = fixture.client();
            let mut events = client.run_streamed(&request(script)).await.unwrap();
            let id = events.sandbox().unwrap().to_owned();
            events.next().await.unwrap().unwrap();

            // Dropping the events closes the connection.
            drop((events, client));

            let path = format!("/api/sandbox/{id}");
            let cause = fixture
                .until("the sandbox is gone", &path, |it| it["receipt"]["cause"].as_str().map(str::to_owned));
            assert_eq!(cause.await, "caller_gone");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn run_accepts_stdin_up_to_the_exec_limit() {
    with_server(|fixture| async move {
        let (client, mut request) = (fixture.client(), request("wc -c"));
        request.exec.stdin = Some("x".repeat(100 << 10));

        let mut events = client.run_streamed(&request).await.unwrap();

        let first = events.next().await.unwrap().unwrap();
        let OutputEvent::Stdout { text, .. } = first else { panic!("{first:?}") };
        assert_eq!(text.as_deref(), Some("102400\n"));
        while events.next().await.unwrap().is_some() {}
    })
    .await;
}
