//! Traces and metrics as a collector receives them from a real server with real sandboxes.

mod collector;
mod collector_failures;
mod metrics_export;

use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Method, Request};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use serde_json::{Value, json};

use crate::fixture::{Answer, Fixture, with_server_config};
use collector::{Receiver, attributes};

/// Trace and span ids of the caller.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

async fn send_traced(fixture: &Fixture, sampled: &str, method: Method, path: &str, body: Value) -> Answer {
    let request = Request::builder()
        .method(method)
        .uri(fixture.url(path))
        .header("authorization", format!("Bearer {}", fixture.admin))
        .header("content-type", "application/json")
        .header("traceparent", format!("00-{TRACE}-{CALLER}-{sampled}"));
    fixture.send(request.body(Full::new(Bytes::from(body.to_string()))).unwrap()).await
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
async fn request_continues_the_callers_trace() {
    let receiver = Receiver::start().await;
    with_server_config(receiver.config_for_traces(), |fixture| async move {
        let spec = json!({ "limits": { "memory_mb": 64 }, "env": { "KEY": "hunter2" } });
        let made = send_traced(&fixture, "01", Method::POST, "/api/sandbox", spec).await.json();
        let id = made["id"].as_str().unwrap();
        let at = |rest: &str| format!("/api/sandbox/{id}{rest}");
        let exec_request = json!({ "command": ["sh", "-c", "echo swordfish; exit 3"] });
        send_traced(&fixture, "01", Method::POST, &at("/exec"), exec_request).await;
        send_traced(&fixture, "01", Method::POST, &at("/probe"), json!({})).await;
        send_traced(&fixture, "01", Method::DELETE, &at(""), json!({})).await;

        let request_span = receiver.span("POST /api/sandbox", &[("pinfold.sandbox.id", id)]).await;
        assert_eq!(
            (hex(&request_span.trace_id), hex(&request_span.parent_span_id)),
            (TRACE.into(), CALLER.into())
        );
        assert_eq!(request_span.kind(), SpanKind::Server);
        assert_eq!(attributes(&request_span.attributes)["http.response.status_code"], "201");
        let own = [("pinfold.sandbox.id", id), ("pinfold.outcome", "ready")];
        let created = receiver.span("create", &own).await;
        assert!(is_child_of(&created, &request_span), "{created:#?} of {request_span:#?}");
        assert!(
            created.end_time_unix_nano <= request_span.end_time_unix_nano,
            "{created:#?} of {request_span:#?}"
        );
        let probes = receiver.spans().into_iter().filter(|span| span.name == "probe");
        let first = probes.into_iter().find(|probe| probe.parent_span_id == created.span_id).unwrap();
        assert!(
            is_child_of(&first, &created) && attributes(&first.attributes)["pinfold.outcome"] == "passed"
        );

        let request_span = receiver.span("POST /api/sandbox/{id}/exec", &[("pinfold.sandbox.id", id)]).await;
        let ran =
            [("pinfold.outcome", "exited"), ("pinfold.cause", "exit_nonzero"), ("pinfold.exit_code", "3")];
        let ran = receiver.span("exec", &ran).await;
        assert!(is_child_of(&ran, &request_span) && !is_error(&ran), "{ran:#?} of {request_span:#?}");
        assert_eq!(ran.events.iter().map(|event| event.name.as_str()).collect::<Vec<_>>(), ["started"]);

        let request_span = receiver.span("POST /api/sandbox/{id}/probe", &[]).await;
        receiver
            .until("a probe of the request", |it| {
                it.spans().into_iter().find(|span| is_child_of(span, &request_span))
            })
            .await;

        let request_span = receiver.span("DELETE /api/sandbox/{id}", &[("pinfold.sandbox.id", id)]).await;
        let stopped = [("pinfold.outcome", "gone"), ("pinfold.cause", "stopped_by_user")];
        let stopped = receiver.span("stop", &stopped).await;
        assert!(is_child_of(&stopped, &request_span), "{stopped:#?} of {request_span:#?}");

        fixture.end().await;
        let names: Vec<_> = receiver.spans().iter().map(|span| span.name.clone()).collect();
        assert!(names.iter().all(|name| !name.contains("sbx_") && !name.contains("exe_")), "{names:?}");
        for received in receiver.received() {
            let bytes = String::from_utf8_lossy(&received.body).into_owned();
            for secret in [fixture.admin.as_str(), "hunter2", "swordfish", "KEY"] {
                assert!(!bytes.contains(secret), "{secret} was sent");
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requested_maintenance_joins_the_request_trace_and_scheduled_has_its_own() {
    let receiver = Receiver::start().await;
    with_server_config(receiver.config_for_traces(), |fixture| async move {
        fixture.post("/api/sandbox/reconcile", json!({})).await;
        fixture.post("/api/sandbox/cleanup", json!({})).await;

        for (request_span, done) in
            [("POST /api/sandbox/reconcile", "reconcile"), ("POST /api/sandbox/cleanup", "cleanup")]
        {
            let request_span = receiver.span(request_span, &[]).await;
            assert!(request_span.parent_span_id.is_empty());
            let of_it = |it: &Receiver| {
                it.spans()
                    .into_iter()
                    .find(|span| span.name == done && span.parent_span_id == request_span.span_id)
            };
            let done = receiver.until(done, of_it).await;
            assert_eq!(attributes(&done.attributes)["pinfold.outcome"], "succeeded");
            assert!(
                done.start_time_unix_nano >= request_span.start_time_unix_nano,
                "{done:#?} of {request_span:#?}"
            );
        }
        let cleanup = receiver.span("cleanup", &[("pinfold.cleanup.layer", "scheduled")]).await;
        assert_eq!(attributes(&cleanup.attributes)["pinfold.cleanup.failed"], "0");
        let alone = |it: &Receiver| it.spans().into_iter().find(|span| span.parent_span_id.is_empty());
        receiver.until("a scheduled trace", alone).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_span_has_error_status_and_cause() {
    let receiver = Receiver::start().await;
    with_server_config(receiver.config_for_traces(), |fixture| async move {
        let spec = json!({ "agent_type": "HASTY" });
        let made = fixture.post("/api/sandbox", spec).await.json();
        fixture.sh(made["id"].as_str().unwrap(), "sleep 30").await;

        let late = [("pinfold.outcome", "timed_out"), ("pinfold.cause", "time_limit")];
        let late = receiver.span("exec", &late).await;
        assert!(is_error(&late), "{late:#?}");
        assert!(late.end_time_unix_nano - late.start_time_unix_nano >= 1_400_000_000, "{late:#?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsampled_request_is_not_traced_and_a_bad_header_starts_a_new_trace() {
    let receiver = Receiver::start().await;
    with_server_config(receiver.config_for_traces(), |fixture| async move {
        send_traced(&fixture, "00", Method::GET, "/api/sandbox/stats", json!({})).await;
        let nonsense = Request::get(fixture.url("/nothing/here")).header("traceparent", "00-nonsense-01-01");
        fixture.send(nonsense.body(Full::default()).unwrap()).await;

        // Spans arrive in the order of their ends: a span of the unsampled request would already be there.
        let unknown = receiver.span("GET", &[("http.response.status_code", "401")]).await;
        assert!(unknown.parent_span_id.is_empty() && unknown.trace_id.len() == 16);
        assert!(receiver.spans().iter().all(|span| hex(&span.trace_id) != TRACE), "{:#?}", receiver.spans());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn abandoned_request_has_a_span() {
    let receiver = Receiver::start().await;
    with_server_config(receiver.config_for_traces(), |fixture| async move {
        let id = fixture.sandbox().await;
        let path = format!("/api/sandbox/{id}/wait?state=gone&wait=60");

        let gone = tokio::time::timeout(Duration::from_millis(300), fixture.get(&path)).await;

        assert!(gone.is_err());
        let request_span = receiver.span("GET /api/sandbox/{id}/wait", &[]).await;
        assert!(!attributes(&request_span.attributes).contains_key("http.response.status_code"));
        let took = request_span.end_time_unix_nano - request_span.start_time_unix_nano;
        assert!((200_000_000..20_000_000_000).contains(&took), "{took}");
    })
    .await;
}
