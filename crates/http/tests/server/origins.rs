//! Requests with a foreign Host or Origin header are refused.

use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use pinfold_api::ErrorCode;

use crate::fixture::with_server;

#[tokio::test(flavor = "multi_thread")]
async fn foreign_host_and_origin_are_refused() {
    with_server(|fixture| async move {
        let send = async |header: &str, value: &str, path: &str| {
            let request = Request::get(fixture.url(path))
                .header("authorization", format!("Bearer {}", fixture.admin))
                .header(header, value);
            fixture.send(request.body(Full::new(Bytes::new())).unwrap()).await
        };
        for path in ["/healthz", "/api/sandbox/list", "/openapi.json", "/nowhere"] {
            for (header, value) in [
                ("host", "evil.example"),
                ("host", "localhost.evil.example"),
                ("origin", "http://evil.example"),
                ("origin", "http://localhost:1"),
                ("origin", "null"),
            ] {
                let answer = send(header, value, path).await;
                assert_eq!(
                    (answer.status, answer.code()),
                    (403, ErrorCode::ForeignOrigin),
                    "{header} {value} {path}"
                );
            }
        }
        let own = format!("http://{}", fixture.address);
        assert_eq!(send("origin", &own, "/api/sandbox/list").await.status, 200);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn client_may_choose_the_request_id() {
    with_server(|fixture| async move {
        let named = async |name: &str| {
            let request = Request::get(fixture.url("/healthz")).header("x-request-id", name);
            let answer = fixture.send(request.body(Full::new(Bytes::new())).unwrap()).await;
            answer.header("x-request-id").unwrap().to_owned()
        };

        assert_eq!(named("trace-1.a_B").await, "trace-1.a_B");
        assert!(named("with spaces").await.starts_with("req_"));
        assert!(named(&"x".repeat(65)).await.starts_with("req_"));
    })
    .await;
}
