//! Traces and figures, as a collector gets them from a real server with real sandboxes.

mod collector;
mod figures;
mod hardship;

use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Method, Request};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use serde_json::{Value, json};

use crate::ground::{Answer, Ground, on_server_with};
use collector::{Receiver, attributes};

/// Of somebody whose own span has this id.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

async fn ask_traced(ground: &Ground, sampled: &str, method: Method, path: &str, body: Value) -> Answer {
    let request = Request::builder()
        .method(method)
        .uri(ground.url(path))
        .header("authorization", format!("Bearer {}", ground.admin))
        .header("content-type", "application/json")
        .header("traceparent", format!("00-{TRACE}-{CALLER}-{sampled}"));
    ground.send(request.body(Full::new(Bytes::from(body.to_string()))).unwrap()).await
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_child_of(child: &Span, parent: &Span) -> bool {
    let (begins, ends) = (child.start_time_unix_nano, child.end_time_unix_nano);
    let within = parent.start_time_unix_nano <= begins && begins <= ends;
    child.trace_id == parent.trace_id && child.parent_span_id == parent.span_id && within
}

fn is_error(span: &Span) -> bool {
    span.status.as_ref().is_some_and(|status| status.code() == StatusCode::Error)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_caller_asks_for_goes_on_in_its_own_trace() {
    let receiver = Receiver::begin().await;
    on_server_with(receiver.config_for_traces(), |ground| async move {
        let wish = json!({ "limits": { "memory_mb": 64 }, "env": { "KEY": "hunter2" } });
        let made = ask_traced(&ground, "01", Method::POST, "/api/sandbox", wish).await.json();
        let id = made["id"].as_str().unwrap();
        let at = |rest: &str| format!("/api/sandbox/{id}{rest}");
        let said = json!({ "command": ["sh", "-c", "echo swordfish; exit 3"] });
        ask_traced(&ground, "01", Method::POST, &at("/exec"), said).await;
        ask_traced(&ground, "01", Method::POST, &at("/probe"), json!({})).await;
        ask_traced(&ground, "01", Method::DELETE, &at(""), json!({})).await;

        let asked = receiver.span("POST /api/sandbox", &[("pinfold.sandbox.id", id)]).await;
        assert_eq!((hex(&asked.trace_id), hex(&asked.parent_span_id)), (TRACE.into(), CALLER.into()));
        assert_eq!(asked.kind(), SpanKind::Server);
        assert_eq!(attributes(&asked.attributes)["http.response.status_code"], "201");
        let own = [("pinfold.sandbox.id", id), ("pinfold.outcome", "ready")];
        let created = receiver.span("create", &own).await;
        assert!(is_child_of(&created, &asked), "{created:#?} of {asked:#?}");
        assert!(created.end_time_unix_nano <= asked.end_time_unix_nano, "{created:#?} of {asked:#?}");
        let probes = receiver.spans().into_iter().filter(|span| span.name == "probe");
        let first = probes.into_iter().find(|probe| probe.parent_span_id == created.span_id).unwrap();
        assert!(
            is_child_of(&first, &created) && attributes(&first.attributes)["pinfold.outcome"] == "passed"
        );

        let asked = receiver.span("POST /api/sandbox/{id}/exec", &[("pinfold.sandbox.id", id)]).await;
        let ran =
            [("pinfold.outcome", "exited"), ("pinfold.cause", "exit_nonzero"), ("pinfold.exit_code", "3")];
        let ran = receiver.span("exec", &ran).await;
        assert!(is_child_of(&ran, &asked) && !is_error(&ran), "{ran:#?} of {asked:#?}");
        assert_eq!(ran.events.iter().map(|event| event.name.as_str()).collect::<Vec<_>>(), ["started"]);

        let asked = receiver.span("POST /api/sandbox/{id}/probe", &[]).await;
        receiver
            .until("a probe of its own", |it| it.spans().into_iter().find(|span| is_child_of(span, &asked)))
            .await;

        let asked = receiver.span("DELETE /api/sandbox/{id}", &[("pinfold.sandbox.id", id)]).await;
        let stopped = [("pinfold.outcome", "gone"), ("pinfold.cause", "stopped_by_user")];
        let stopped = receiver.span("stop", &stopped).await;
        assert!(is_child_of(&stopped, &asked), "{stopped:#?} of {asked:#?}");

        ground.end().await;
        let names: Vec<_> = receiver.spans().iter().map(|span| span.name.clone()).collect();
        assert!(names.iter().all(|name| !name.contains("sbx_") && !name.contains("exe_")), "{names:?}");
        for got in receiver.got() {
            let bytes = String::from_utf8_lossy(&got.body).into_owned();
            for secret in [ground.admin.as_str(), "hunter2", "swordfish", "KEY"] {
                assert!(!bytes.contains(secret), "{secret} was sent");
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn care_that_somebody_asks_for_is_part_of_the_asking_and_other_care_is_a_trace_of_its_own() {
    let receiver = Receiver::begin().await;
    on_server_with(receiver.config_for_traces(), |ground| async move {
        ground.post("/api/sandbox/reconcile", json!({})).await;
        ground.post("/api/sandbox/cleanup", json!({})).await;

        for (asked, done) in
            [("POST /api/sandbox/reconcile", "reconcile"), ("POST /api/sandbox/cleanup", "cleanup")]
        {
            let asked = receiver.span(asked, &[]).await;
            assert!(asked.parent_span_id.is_empty());
            let of_it = |it: &Receiver| {
                it.spans().into_iter().find(|span| span.name == done && span.parent_span_id == asked.span_id)
            };
            let done = receiver.until(done, of_it).await;
            assert_eq!(attributes(&done.attributes)["pinfold.outcome"], "succeeded");
            assert!(done.start_time_unix_nano >= asked.start_time_unix_nano, "{done:#?} of {asked:#?}");
        }
        let cleanup = receiver.span("cleanup", &[("pinfold.cleanup.layer", "scheduled")]).await;
        assert_eq!(attributes(&cleanup.attributes)["pinfold.cleanup.failed"], "0");
        let alone = |it: &Receiver| it.spans().into_iter().find(|span| span.parent_span_id.is_empty());
        receiver.until("a trace of its own", alone).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_fails_is_marked_with_its_cause() {
    let receiver = Receiver::begin().await;
    on_server_with(receiver.config_for_traces(), |ground| async move {
        let wish = json!({ "agent_type": "HASTY" });
        let made = ground.post("/api/sandbox", wish).await.json();
        ground.sh(made["id"].as_str().unwrap(), "sleep 30").await;

        let late = [("pinfold.outcome", "timed_out"), ("pinfold.cause", "time_limit")];
        let late = receiver.span("exec", &late).await;
        assert!(is_error(&late), "{late:#?}");
        assert!(late.end_time_unix_nano - late.start_time_unix_nano >= 1_400_000_000, "{late:#?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_does_not_want_to_be_traced_is_not_and_nonsense_begins_a_trace_of_its_own() {
    let receiver = Receiver::begin().await;
    on_server_with(receiver.config_for_traces(), |ground| async move {
        ask_traced(&ground, "00", Method::GET, "/api/sandbox/stats", json!({})).await;
        let nonsense = Request::get(ground.url("/nothing/here")).header("traceparent", "00-nonsense-01-01");
        ground.send(nonsense.body(Full::default()).unwrap()).await;

        // Spans come in the order of their end, so the first would be there.
        let unknown = receiver.span("GET", &[("http.response.status_code", "401")]).await;
        assert!(unknown.parent_span_id.is_empty() && unknown.trace_id.len() == 16);
        assert!(receiver.spans().iter().all(|span| hex(&span.trace_id) != TRACE), "{:#?}", receiver.spans());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_not_waited_for_has_its_span_too() {
    let receiver = Receiver::begin().await;
    on_server_with(receiver.config_for_traces(), |ground| async move {
        let id = ground.sandbox().await;
        let path = format!("/api/sandbox/{id}/wait?state=gone&wait=60");

        let gone = tokio::time::timeout(Duration::from_millis(300), ground.get(&path)).await;

        assert!(gone.is_err());
        let asked = receiver.span("GET /api/sandbox/{id}/wait", &[]).await;
        assert!(!attributes(&asked.attributes).contains_key("http.response.status_code"));
        let took = asked.end_time_unix_nano - asked.start_time_unix_nano;
        assert!((200_000_000..20_000_000_000).contains(&took), "{took}");
    })
    .await;
}
