//! Terminals over WebSocket: input, resize, reattach, and refusal of unauthorised clients.

mod long_sessions;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::fixture::{Fixture, with_server};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

async fn attach(
    fixture: &Fixture,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<Socket, tungstenite::Error> {
    let mut request = format!("ws://{}{path}", fixture.address).into_client_request().unwrap();
    for (name, value) in headers {
        let name: hyper::header::HeaderName = name.parse().unwrap();
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    connect_async(request).await.map(|(socket, _)| socket)
}

async fn shell(fixture: &Fixture) -> (String, String) {
    let id = fixture.sandbox().await;
    let execution = fixture.sh_in_background(&id, json!({ "command": ["sh"], "tty": true })).await;
    (format!("/api/executions/{execution}/pty"), format!("Bearer {}", fixture.admin))
}

/// Reads until `wanted` appears; returns the text and the last sequence number.
async fn read_until(socket: &mut Socket, wanted: &str) -> (String, u64) {
    let (mut read, mut seq) = (String::new(), 0);
    while !read.contains(wanted) || seq == 0 {
        match socket.next().await.expect("the socket is open").unwrap() {
            Message::Binary(bytes) => {
                read.push_str(&String::from_utf8_lossy(&bytes));
                seq = 0;
            }
            Message::Text(text) => {
                let reported: Value = serde_json::from_str(&text).unwrap();
                seq = reported["seq"].as_u64().unwrap();
            }
            _ => {}
        }
    }
    (read, seq)
}

async fn type_in(socket: &mut Socket, text: &str) {
    socket.send(Message::Binary(text.as_bytes().to_vec().into())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn terminal_takes_input_resizes_and_reattaches() {
    with_server(|fixture| async move {
        let (path, bearer) = shell(&fixture).await;
        let mut socket = attach(&fixture, &path, &[("authorization", &bearer)]).await.unwrap();
        let size = json!({ "resize": { "columns": 91, "rows": 37 } });
        socket.send(Message::Text(size.to_string().into())).await.unwrap();
        type_in(&mut socket, "stty size; test -t 0 && echo is-$((40+2))\n").await;
        let (read, seq) = read_until(&mut socket, "is-42").await;
        assert!(read.contains("37 91"), "{read}");
        drop(socket);

        let back = format!("{path}?after={seq}");
        let mut socket = attach(&fixture, &back, &[("authorization", &bearer)]).await.unwrap();
        type_in(&mut socket, "echo once-$((50+5)); exit 3\n").await;
        let (read, _) = read_until(&mut socket, "once-55").await;
        assert!(!read.contains("is-42"), "{read}");
        let mut exit = None;
        while let Some(Ok(message)) = socket.next().await {
            if let Message::Text(text) = message {
                exit = serde_json::from_str::<Value>(&text).ok();
            }
        }
        let exit = exit.unwrap();
        assert_eq!((&exit["event"], &exit["exit_code"]), (&json!("exit"), &json!(3)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn terminal_needs_an_allowed_origin_and_an_operator_token() {
    with_server(|fixture| async move {
        let (path, bearer) = shell(&fixture).await;
        let viewer = format!("Bearer {}", fixture.token("viewer").await.1);
        let own = format!("http://{}", fixture.address);

        for (status, headers) in [
            (401, &[][..]),
            (403, &[("authorization", viewer.as_str())]),
            (403, &[("authorization", bearer.as_str()), ("origin", "http://evil.example")]),
        ] {
            match attach(&fixture, &path, headers).await {
                Err(tungstenite::Error::Http(refusal)) => assert_eq!(refusal.status(), status),
                other => panic!("{status}: {other:?}"),
            }
        }
        attach(&fixture, &path, &[("authorization", &bearer), ("origin", &own)]).await.unwrap();
        assert_eq!(fixture.get(&path).await.status, 400, "it is no WebSocket");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_message_closes_only_the_websocket() {
    with_server(|fixture| async move {
        let (path, bearer) = shell(&fixture).await;
        let mut socket = attach(&fixture, &path, &[("authorization", &bearer)]).await.unwrap();

        socket.send(Message::Text("{\"colour\": 1}".into())).await.unwrap();

        let mut reason = None;
        while let Some(Ok(message)) = socket.next().await {
            if let Message::Close(frame) = message {
                reason = frame;
            }
        }
        assert!(reason.unwrap().reason.contains("colour"));
        let execution = fixture.get(path.trim_end_matches("/pty")).await.json();
        assert_eq!(execution["state"], "running");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn terminal_can_be_resized_over_http() {
    with_server(|fixture| async move {
        let id = fixture.sandbox().await;
        let script = "while [ \"$(stty size)\" != '37 91' ]; do sleep 0.02; done; echo seen";
        let request = json!({ "command": ["sh", "-c", script], "tty": true });
        let execution = fixture.sh_in_background(&id, request).await;
        let resize = format!("/api/executions/{execution}/resize");

        let resized = fixture.post(&resize, json!({ "columns": 91, "rows": 37 })).await;
        let flat = fixture.post(&resize, json!({ "columns": 91, "rows": 0 })).await;

        assert_eq!(resized.status, 200, "{}", resized.json());
        assert_eq!((flat.status, &flat.json()["error"]["details"]["field"]), (400, &json!("rows")));
        let mut events = fixture.client().follow(&execution, 0).await.unwrap();
        while let Some(event) = events.next().await.unwrap() {
            if let pinfold_api::OutputEvent::Exit { exit_code, .. } = event {
                assert_eq!(exit_code, Some(0));
            }
        }
        let plain = fixture.sh_in_background(&id, crate::fixture::sh("sleep 100")).await;
        let size = json!({ "columns": 91, "rows": 37 });
        let refused = fixture.post(&format!("/api/executions/{plain}/resize"), size).await;
        assert_eq!((refused.status, refused.code()), (409, pinfold_api::ErrorCode::WrongState));
    })
    .await;
}
