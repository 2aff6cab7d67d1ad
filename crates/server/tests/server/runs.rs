//! A command in a sandbox of its own ends with whoever waits for it.

use pinfold_api::{OutputEvent, RunRequest};
use serde_json::json;

use crate::ground::{on_server, sh};

fn request(script: &str) -> RunRequest {
    serde_json::from_value(json!({ "sandbox": { "limits": { "memory_mb": 64 } }, "exec": sh(script) }))
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_caller_goes_away_ends_also_while_it_says_nothing() {
    on_server(|ground| async move {
        for script in ["echo here; exec sleep 1000", "while echo here; do sleep 0.01; done"] {
            let client = ground.client();
            let mut events = client.run_streamed(&request(script)).await.unwrap();
            let id = events.sandbox().unwrap().to_owned();
            events.next().await.unwrap().unwrap();

            // The connection goes with them.
            drop((events, client));

            let path = format!("/api/sandbox/{id}");
            let cause = ground
                .until("the sandbox is gone", &path, |it| it["receipt"]["cause"].as_str().map(str::to_owned));
            assert_eq!(cause.await, "caller_gone");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_reads_as_much_as_an_exec_does() {
    on_server(|ground| async move {
        let (client, mut request) = (ground.client(), request("wc -c"));
        request.exec.stdin = Some("x".repeat(100 << 10));

        let mut events = client.run_streamed(&request).await.unwrap();

        let first = events.next().await.unwrap().unwrap();
        let OutputEvent::Stdout { text, .. } = first else { panic!("{first:?}") };
        assert_eq!(text.as_deref(), Some("102400\n"));
        while events.next().await.unwrap().is_some() {}
    })
    .await;
}
