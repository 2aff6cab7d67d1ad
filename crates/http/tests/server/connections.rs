//! Connections that show no token take no place from those that do: bounds per address and in total, and times for
//! heads and bodies.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use hyper::Method;
use pinfold_http::ServerConfig;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::Instant;

use crate::fixture::{Fixture, with_server_config};

/// Time in which an authorised request must be answered, far below the time for heads.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// Connections from a loopback address that send half of a request head.
async fn half_open(address: SocketAddr, from: Ipv4Addr, count: usize) -> Vec<TcpStream> {
    let mut opened = Vec::new();
    for _ in 0..count {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        let Ok(Ok(mut stream)) = tokio::time::timeout(READ_TIMEOUT, socket.connect(address)).await else {
            continue;
        };
        let _ = stream.write_all(b"GET /api/sandbox/stats HTTP/1.1\r\nHost: localhost\r\n").await;
        opened.push(stream);
    }
    opened
}

async fn authorised_status(fixture: &Fixture) -> Option<u16> {
    let answer = fixture.get("/api/sandbox/stats");
    tokio::time::timeout(ANSWER_TIMEOUT, answer).await.ok().map(|answer| answer.status)
}

/// Reads until the server closes the connection.
async fn read_to_close(stream: &mut TcpStream) -> Vec<u8> {
    let mut read = Vec::new();
    let closed = tokio::time::timeout(READ_TIMEOUT, stream.read_to_end(&mut read)).await;
    // A reset is a close too.
    let _ = closed.expect("the server did not close the connection");
    read
}

#[tokio::test(flavor = "multi_thread")]
async fn half_open_connections_of_one_address_do_not_delay_an_authorised_request() {
    let config = ServerConfig { connections: 32, connections_per_address: 16, ..ServerConfig::default() };
    with_server_config(config, |fixture| async move {
        let held = half_open(fixture.address, Ipv4Addr::LOCALHOST, 400).await;

        assert_eq!(authorised_status(&fixture).await, Some(200), "with {} half-open connections", held.len());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_open_connections_of_many_addresses_do_not_delay_an_authorised_request() {
    let config = ServerConfig { connections: 4, connections_without_token: 16, ..ServerConfig::default() };
    with_server_config(config, |fixture| async move {
        let mut held = Vec::new();
        for last in 2..62 {
            held.extend(half_open(fixture.address, Ipv4Addr::new(127, 0, 0, last), 2).await);
        }

        assert_eq!(authorised_status(&fixture).await, Some(200), "with {} half-open connections", held.len());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_open_connection_is_closed_after_the_head_timeout() {
    let config = ServerConfig { head_timeout: Duration::from_millis(300), ..ServerConfig::default() };
    with_server_config(config, |fixture| async move {
        let began = Instant::now();
        let mut held = half_open(fixture.address, Ipv4Addr::LOCALHOST, 20).await;
        held.push(TcpStream::connect(fixture.address).await.unwrap());

        for stream in &mut held {
            read_to_close(stream).await;
        }

        let took = began.elapsed();
        assert!((Duration::from_millis(300)..Duration::from_secs(10)).contains(&took), "{took:?}");
    })
    .await;
}

/// The head of an exec request with a chunked body.
fn exec_head(fixture: &Fixture, sandbox: &str) -> String {
    format!(
        "POST /api/sandbox/{sandbox}/exec HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
        fixture.admin
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_body_is_cut_and_a_slow_one_goes_on() {
    let body_timeout = Duration::from_millis(1_000);
    let config = ServerConfig { body_timeout, ..ServerConfig::default() };
    with_server_config(config, |fixture| async move {
        let sandbox = fixture.sandbox().await;
        let send = async |pieces: &[&str]| {
            let mut stream = TcpStream::connect(fixture.address).await.unwrap();
            stream.write_all(exec_head(&fixture, &sandbox).as_bytes()).await.unwrap();
            for piece in pieces {
                stream.write_all(format!("{:x}\r\n{piece}\r\n", piece.len()).as_bytes()).await.unwrap();
                tokio::time::sleep(body_timeout / 4).await;
            }
            stream
        };
        let command: Vec<String> =
            r#"{"command":["true"]}"#.as_bytes().chunks(2).map(|it| String::from_utf8_lossy(it).into()).collect();
        let command: Vec<&str> = command.iter().map(String::as_str).collect();

        let mut stalled = send(&[r#"{"command""#]).await;
        let refused = String::from_utf8(read_to_close(&mut stalled).await).unwrap();
        let mut slow = send(&command).await;
        slow.write_all(b"0\r\n\r\n").await.unwrap();
        let done = String::from_utf8(read_to_close(&mut slow).await).unwrap();

        assert!(refused.starts_with("HTTP/1.1 408 "), "{refused}");
        assert!(refused.contains(r#""code":"body_stalled""#), "{refused}");
        assert!(done.starts_with("HTTP/1.1 200 "), "{done}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_token_gives_up_its_place_among_the_authorised() {
    let config = ServerConfig { connections: 1, ..ServerConfig::default() };
    with_server_config(config, |fixture| async move {
        let body = serde_json::json!({ "name": "short", "role": "viewer" });
        let made = fixture.send_once(Method::POST, "/api/tokens", &fixture.admin, &body).await.json();
        let (id, secret) = (made["id"].as_str().unwrap(), made["secret"].as_str().unwrap());
        let mut held = TcpStream::connect(fixture.address).await.unwrap();
        let head = format!(
            "GET /api/sandbox/stats HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {secret}\r\n\r\n"
        );
        held.write_all(head.as_bytes()).await.unwrap();
        let mut first = [0; 12];
        held.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
        fixture.service.revoke_token(id.parse().unwrap()).await.unwrap();

        held.write_all(head.as_bytes()).await.unwrap();

        let rest = String::from_utf8(read_to_close(&mut held).await).unwrap();
        assert!(rest.contains("HTTP/1.1 401 ") && rest.contains("connection: close"), "{rest}");
        let answer = fixture.send_once(Method::GET, "/api/sandbox/stats", &fixture.admin, &Value::Null).await;
        assert_eq!(answer.status, 200);
    })
    .await;
}
