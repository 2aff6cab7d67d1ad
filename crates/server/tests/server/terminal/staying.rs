//! Terminals that somebody sits at for long, has left, or may not sit at any more.

use std::time::Duration;

use futures_util::StreamExt;
use hyper::{Method, Request};
use pinfold_server::http::ServerConfig;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::{Line, attach, read_until, shell, type_in};
use crate::ground::{Answer, Ground, on_server_that_looks_again};

fn one_connection() -> ServerConfig {
    ServerConfig { connections: 1, ..ServerConfig::default() }
}

/// Over a connection that ends with the answer, so that the next one has its place.
async fn ask_once(ground: &Ground, method: Method, path: &str, body: Value) -> Answer {
    let request = Request::builder()
        .method(method)
        .uri(ground.url(path))
        .header("authorization", format!("Bearer {}", ground.admin))
        .header("content-type", "application/json")
        .header("connection", "close");
    ground.send(request.body(body.to_string().into()).unwrap()).await
}

/// Sits down at a terminal with the only connection that there may be.
async fn sit_down(ground: &Ground, command: &[&str]) -> Line {
    let made = ask_once(ground, Method::POST, "/api/sandbox", json!({ "limits": { "memory_mb": 64 } })).await;
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let command = json!({ "command": command, "tty": true, "background": true });
    let began = ask_once(ground, Method::POST, &format!("/api/sandbox/{id}/exec"), command).await;
    let path = format!("/api/executions/{}/pty", began.json()["execution_id"].as_str().unwrap());
    attach(ground, &path, &[("authorization", &format!("Bearer {}", ground.admin))]).await.unwrap()
}

/// How the server ends it.
async fn closed(line: &mut Line) -> Option<CloseFrame> {
    while let Some(Ok(message)) = line.next().await {
        if let Message::Close(frame) = message {
            return frame;
        }
    }
    None
}

/// Short, and masked with nothing, as clients send them.
fn frame(typed: &str) -> Vec<u8> {
    let length = u8::try_from(typed.len()).unwrap();
    assert!(length < 126);
    [&[0x82, 0x80 | length, 0, 0, 0, 0], typed.as_bytes()].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_is_one_of_the_connections_that_there_may_be() {
    on_server_that_looks_again(one_connection(), |ground| async move {
        let line = sit_down(&ground, &["sh"]).await;

        let mut next = std::pin::pin!(ask_once(&ground, Method::GET, "/healthz", json!({})));
        let early = tokio::time::timeout(Duration::from_millis(300), &mut next).await;
        drop(line);

        assert!(early.is_err(), "it was answered beside the terminal");
        assert_eq!(next.await.status, 200);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_that_was_left_gives_its_place_back_also_while_its_program_reads_nothing() {
    on_server_that_looks_again(one_connection(), |ground| async move {
        let mut line = sit_down(&ground, &["sleep", "1000"]).await;
        // More than is taken for a program that does not read.
        type_in(&mut line, &"unread\n".repeat(90_000)).await;
        read_until(&mut line, "unread").await;

        drop(line);

        assert_eq!(ask_once(&ground, Method::GET, "/healthz", json!({})).await.status, 200);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_is_closed_to_a_token_that_was_revoked_and_takes_nothing_more_from_it() {
    on_server_that_looks_again(ServerConfig::default(), |ground| async move {
        let (path, admin) = shell(&ground).await;
        let (token, secret) = ground.token("operator").await;
        let bearer = format!("Bearer {secret}");
        let mut line = attach(&ground, &path, &[("authorization", &bearer)]).await.unwrap();
        type_in(&mut line, "echo before-$((40+2))\n").await;
        read_until(&mut line, "before-42").await;

        ground.delete(&format!("/api/tokens/{token}")).await;
        let closed = closed(&mut line).await.unwrap();
        // Whoever does not care types on, as long as that gets through at all.
        let _ = line.get_mut().write_all(&frame("echo late-$((50+5))\n")).await;

        assert_eq!((closed.code, closed.reason.as_str()), (CloseCode::Policy, "the token was revoked"));
        let mut line = attach(&ground, &path, &[("authorization", &admin)]).await.unwrap();
        type_in(&mut line, "echo after-$((60+6))\n").await;
        let (read, _) = read_until(&mut line, "after-66").await;
        assert!(read.contains("before-42") && !read.contains("late"), "{read}");
    })
    .await;
}
