//! Requests with a foreign Host or Origin header are refused.

use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use pinfold_api::{ErrorBody, ErrorCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

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

/// Sends text as it is and returns the answer, which closes the connection.
async fn send_raw(address: std::net::SocketAddr, text: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn two_host_headers_and_absolute_targets_are_refused() {
    with_server(|fixture| async move {
        let address = fixture.address;
        for (head, field) in [
            (format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\nHost: evil.example\r\n"), "Host"),
            (format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\nHost: {address}\r\n"), "Host"),
            (format!("GET http://evil.example/healthz HTTP/1.1\r\nHost: {address}\r\n"), "request target"),
            (format!("GET http://{address}/healthz HTTP/1.1\r\nHost: {address}\r\n"), "request target"),
            (format!("CONNECT evil.example:80 HTTP/1.1\r\nHost: {address}\r\n"), "request target"),
        ] {
            let answer = send_raw(address, &format!("{head}Connection: close\r\n\r\n")).await;

            assert!(answer.starts_with("HTTP/1.1 400 "), "{head}: {answer}");
            let body = answer.split_once("\r\n\r\n").unwrap().1;
            let error: ErrorBody = serde_json::from_str(body).unwrap();
            assert_eq!(error.error.code, ErrorCode::BadInput, "{head}");
            assert_eq!(error.error.details["field"], field, "{head}");
        }
        let single = format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        assert!(send_raw(address, &single).await.starts_with("HTTP/1.1 200 "));
    })
    .await;
}
