//! Requests that are not meant for this server get nothing.

use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use pinfold_api::ErrorCode;

use crate::ground::on_server;

#[tokio::test(flavor = "multi_thread")]
async fn a_rebound_name_and_a_page_from_elsewhere_get_nothing() {
    on_server(|ground| async move {
        let ask = async |header: &str, value: &str, path: &str| {
            let request = Request::get(ground.url(path))
                .header("authorization", format!("Bearer {}", ground.admin))
                .header(header, value);
            ground.send(request.body(Full::new(Bytes::new())).unwrap()).await
        };
        for path in ["/healthz", "/api/sandbox/list", "/openapi.json", "/nowhere"] {
            for (header, value) in [
                ("host", "evil.example"),
                ("host", "localhost.evil.example"),
                ("origin", "http://evil.example"),
                ("origin", "http://localhost:1"),
                ("origin", "null"),
            ] {
                let answer = ask(header, value, path).await;
                assert_eq!(
                    (answer.status, answer.code()),
                    (403, ErrorCode::ForeignOrigin),
                    "{header} {value} {path}"
                );
            }
        }
        let own = format!("http://{}", ground.address);
        assert_eq!(ask("origin", &own, "/api/sandbox/list").await.status, 200);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_may_be_named_by_whoever_asks() {
    on_server(|ground| async move {
        let named = async |name: &str| {
            let request = Request::get(ground.url("/healthz")).header("x-request-id", name);
            let answer = ground.send(request.body(Full::new(Bytes::new())).unwrap()).await;
            answer.header("x-request-id").unwrap().to_owned()
        };

        assert_eq!(named("trace-1.a_B").await, "trace-1.a_B");
        assert!(named("with spaces").await.starts_with("req_"));
        assert!(named(&"x".repeat(65)).await.starts_with("req_"));
    })
    .await;
}
