//! Events over HTTP: paged, streamed, and resumed after a server restart.

use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::fixture::{Fixture, with_server};

fn names(page: &Value) -> Vec<String> {
    let events = page["events"].as_array().unwrap();
    events.iter().map(|event| event["event"].as_str().unwrap().to_owned()).collect()
}

async fn page(fixture: &Fixture, path: &str) -> Value {
    let answer = fixture.get(path).await;
    assert_eq!(answer.status, 200, "{:?}", answer.bytes);
    answer.json()
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_a_sandbox_are_paged() {
    with_server(|fixture| async move {
        let (id, other) = (fixture.sandbox().await, fixture.sandbox().await);
        fixture.sh(&id, "true").await;
        fixture.delete(&format!("/api/sandbox/{id}")).await;

        let (mut after, mut read) = (0, Vec::new());
        loop {
            let page = page(&fixture, &format!("/api/sandbox/{id}/events?after={after}&limit=2")).await;
            assert!(page["events"].as_array().unwrap().len() <= 2);
            assert!(page["events"].as_array().unwrap().iter().all(|event| event["sandbox_id"] == id));
            read.extend(names(&page));
            after = page["next"].as_u64().unwrap();
            if page["more"] == false {
                break;
            }
        }

        for wanted in ["created", "became_ready", "execution_ended", "end_decided", "lease_freed", "ended"] {
            assert!(read.iter().any(|name| name == wanted), "{wanted}: {read:?}");
        }
        let all = page(&fixture, "/api/events").await;
        assert!(all["events"].as_array().unwrap().iter().any(|event| event["sandbox_id"] == other));
        let unknown = fixture.get("/api/sandbox/sbx_01m7h9849weh0tapx1maw3q2yb/events").await;
        assert_eq!(unknown.status, 404);
    })
    .await;
}

/// Reads lines until one starts with `wanted`.
async fn read_until(body: &mut hyper::body::Incoming, wanted: &str) -> String {
    let mut read = String::new();
    while !read.lines().any(|line| line.starts_with(wanted)) {
        let frame = body.frame().await.expect("the stream is open").unwrap();
        if let Ok(data) = frame.into_data() {
            read.push_str(&String::from_utf8_lossy(&data));
        }
    }
    read
}

#[tokio::test(flavor = "multi_thread")]
async fn event_stream_names_the_resume_position_at_shutdown() {
    with_server(|fixture| async move {
        fixture.sandbox().await;
        let mut stream = fixture.stream("/api/events?follow=1&from_now=1").await;

        let id = fixture.sandbox().await;
        let came = read_until(&mut stream, "event: became_ready").await;
        let ended = tokio::spawn({
            let fixture = fixture.clone();
            async move { fixture.end().await }
        });
        let last = read_until(&mut stream, "event: error").await;

        assert!(came.contains("event: created") && came.contains(&id), "{came}");
        let ids: Vec<u64> =
            came.lines().filter_map(|line| line.strip_prefix("id: ")).map(|id| id.parse().unwrap()).collect();
        assert!(ids.is_sorted() && ids.len() >= 2, "{ids:?}");
        let line = last.lines().rfind(|line| line.starts_with("data: ")).unwrap();
        let reported: Value = serde_json::from_str(line.strip_prefix("data: ").unwrap()).unwrap();
        assert!(reported["seq"].as_u64().unwrap() >= *ids.last().unwrap());
        assert_ne!(reported["message"], json!(null));
        ended.await.unwrap();
    })
    .await;
}
