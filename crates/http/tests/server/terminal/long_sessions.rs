//! Terminals that stay open long, are abandoned, or lose their authorisation.

use std::time::Duration;

use futures_util::StreamExt;
use hyper::Method;
use pinfold_http::ServerConfig;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::{Socket, attach, read_until, shell, type_in};
use crate::fixture::{Answer, Fixture, with_fast_rechecks};

fn one_connection() -> ServerConfig {
    ServerConfig { connections: 1, ..ServerConfig::default() }
}

async fn send_once(fixture: &Fixture, method: Method, path: &str, body: Value) -> Answer {
    fixture.send_once(method, path, &fixture.admin, &body).await
}

/// Attaches to a terminal with the only connection allowed.
async fn attach_terminal(fixture: &Fixture, command: &[&str]) -> Socket {
    let made =
        send_once(fixture, Method::POST, "/api/sandbox", json!({ "limits": { "memory_mb": 64 } })).await;
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let command = json!({ "command": command, "tty": true, "background": true });
    let began = send_once(fixture, Method::POST, &format!("/api/sandbox/{id}/exec"), command).await;
    let path = format!("/api/executions/{}/pty", began.json()["execution_id"].as_str().unwrap());
    attach(fixture, &path, &[("authorization", &format!("Bearer {}", fixture.admin))]).await.unwrap()
}

/// The server's close frame.
async fn closed(socket: &mut Socket) -> Option<CloseFrame> {
    while let Some(Ok(message)) = socket.next().await {
        if let Message::Close(frame) = message {
            return frame;
        }
    }
    None
}

/// A short client frame with a zero mask.
fn frame(typed: &str) -> Vec<u8> {
    let length = u8::try_from(typed.len()).unwrap();
    assert!(length < 126);
    [&[0x82, 0x80 | length, 0, 0, 0, 0], typed.as_bytes()].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn terminal_counts_towards_the_connection_limit() {
    with_fast_rechecks(one_connection(), |fixture| async move {
        let socket = attach_terminal(&fixture, &["sh"]).await;

        let mut next = std::pin::pin!(send_once(&fixture, Method::GET, "/api/sandbox/stats", json!({})));
        let early = tokio::time::timeout(Duration::from_millis(300), &mut next).await;
        drop(socket);

        assert!(early.is_err(), "it was answered while the terminal held the only connection");
        assert_eq!(next.await.status, 200);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn abandoned_terminal_frees_its_connection_even_with_unread_input() {
    with_fast_rechecks(one_connection(), |fixture| async move {
        let mut socket = attach_terminal(&fixture, &["sleep", "1000"]).await;
        // More input than the server buffers for a program that does not read.
        type_in(&mut socket, &"unread\n".repeat(90_000)).await;
        read_until(&mut socket, "unread").await;

        drop(socket);

        assert_eq!(send_once(&fixture, Method::GET, "/api/sandbox/stats", json!({})).await.status, 200);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn terminal_closes_when_its_token_is_revoked() {
    with_fast_rechecks(ServerConfig::default(), |fixture| async move {
        let (path, admin) = shell(&fixture).await;
        let (token, secret) = fixture.token("operator").await;
        let bearer = format!("Bearer {secret}");
        let mut socket = attach(&fixture, &path, &[("authorization", &bearer)]).await.unwrap();
        type_in(&mut socket, "echo before-$((40+2))\n").await;
        read_until(&mut socket, "before-42").await;

        fixture.delete(&format!("/api/tokens/{token}")).await;
        let closed = closed(&mut socket).await.unwrap();
        // Input after the close frame, written past the WebSocket library. The server may have closed the socket.
        let _ = socket.get_mut().write_all(&frame("echo late-$((50+5))\n")).await;

        assert_eq!((closed.code, closed.reason.as_str()), (CloseCode::Policy, "the token was revoked"));
        let mut socket = attach(&fixture, &path, &[("authorization", &admin)]).await.unwrap();
        type_in(&mut socket, "echo after-$((60+6))\n").await;
        let (read, _) = read_until(&mut socket, "after-66").await;
        assert!(read.contains("before-42") && !read.contains("late"), "{read}");
    })
    .await;
}
