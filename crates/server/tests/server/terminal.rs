//! A terminal over a WebSocket: typed into, resized, left and come back to, and closed to whoever may not.

mod staying;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::ground::{Ground, on_server};

type Line = WebSocketStream<MaybeTlsStream<TcpStream>>;

async fn attach(ground: &Ground, path: &str, headers: &[(&str, &str)]) -> Result<Line, tungstenite::Error> {
    let mut request = format!("ws://{}{path}", ground.address).into_client_request().unwrap();
    for (name, value) in headers {
        let name: hyper::header::HeaderName = name.parse().unwrap();
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    connect_async(request).await.map(|(line, _)| line)
}

async fn shell(ground: &Ground) -> (String, String) {
    let id = ground.sandbox().await;
    let execution = ground.sh_in_background(&id, json!({ "command": ["sh"], "tty": true })).await;
    (format!("/api/executions/{execution}/pty"), format!("Bearer {}", ground.admin))
}

/// All that was written, and the last number, when this is among it.
async fn read_until(line: &mut Line, wanted: &str) -> (String, u64) {
    let (mut read, mut seq) = (String::new(), 0);
    while !read.contains(wanted) || seq == 0 {
        match line.next().await.expect("the line is open").unwrap() {
            Message::Binary(bytes) => {
                read.push_str(&String::from_utf8_lossy(&bytes));
                seq = 0;
            }
            Message::Text(text) => {
                let told: Value = serde_json::from_str(&text).unwrap();
                seq = told["seq"].as_u64().unwrap();
            }
            _ => {}
        }
    }
    (read, seq)
}

async fn type_in(line: &mut Line, text: &str) {
    line.send(Message::Binary(text.as_bytes().to_vec().into())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_is_typed_into_resized_left_and_come_back_to() {
    on_server(|ground| async move {
        let (path, bearer) = shell(&ground).await;
        let mut line = attach(&ground, &path, &[("authorization", &bearer)]).await.unwrap();
        let size = json!({ "resize": { "columns": 91, "rows": 37 } });
        line.send(Message::Text(size.to_string().into())).await.unwrap();
        type_in(&mut line, "stty size; test -t 0 && echo is-$((40+2))\n").await;
        let (read, seq) = read_until(&mut line, "is-42").await;
        assert!(read.contains("37 91"), "{read}");
        drop(line);

        let back = format!("{path}?after={seq}");
        let mut line = attach(&ground, &back, &[("authorization", &bearer)]).await.unwrap();
        type_in(&mut line, "echo once-$((50+5)); exit 3\n").await;
        let (read, _) = read_until(&mut line, "once-55").await;
        assert!(!read.contains("is-42"), "{read}");
        let mut exit = None;
        while let Some(Ok(message)) = line.next().await {
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
async fn a_terminal_is_for_its_own_pages_and_for_tokens_that_may_type() {
    on_server(|ground| async move {
        let (path, bearer) = shell(&ground).await;
        let viewer = format!("Bearer {}", ground.token("viewer").await.1);
        let own = format!("http://{}", ground.address);

        for (status, headers) in [
            (401, &[][..]),
            (403, &[("authorization", viewer.as_str())]),
            (403, &[("authorization", bearer.as_str()), ("origin", "http://evil.example")]),
        ] {
            match attach(&ground, &path, headers).await {
                Err(tungstenite::Error::Http(refusal)) => assert_eq!(refusal.status(), status),
                other => panic!("{status}: {other:?}"),
            }
        }
        attach(&ground, &path, &[("authorization", &bearer), ("origin", &own)]).await.unwrap();
        assert_eq!(ground.get(&path).await.status, 400, "it is no WebSocket");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_understood_closes_the_line_and_nothing_else() {
    on_server(|ground| async move {
        let (path, bearer) = shell(&ground).await;
        let mut line = attach(&ground, &path, &[("authorization", &bearer)]).await.unwrap();

        line.send(Message::Text("{\"colour\": 1}".into())).await.unwrap();

        let mut reason = None;
        while let Some(Ok(message)) = line.next().await {
            if let Message::Close(frame) = message {
                reason = frame;
            }
        }
        assert!(reason.unwrap().reason.contains("colour"));
        let execution = ground.get(path.trim_end_matches("/pty")).await.json();
        assert_eq!(execution["state"], "running");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_is_resized_by_whoever_has_no_line_to_it() {
    on_server(|ground| async move {
        let id = ground.sandbox().await;
        let script = "while [ \"$(stty size)\" != '37 91' ]; do sleep 0.02; done; echo seen";
        let request = json!({ "command": ["sh", "-c", script], "tty": true });
        let execution = ground.sh_in_background(&id, request).await;
        let resize = format!("/api/executions/{execution}/resize");

        let resized = ground.post(&resize, json!({ "columns": 91, "rows": 37 })).await;
        let flat = ground.post(&resize, json!({ "columns": 91, "rows": 0 })).await;

        assert_eq!(resized.status, 200, "{}", resized.json());
        assert_eq!((flat.status, &flat.json()["error"]["details"]["field"]), (400, &json!("rows")));
        let mut events = ground.client().follow(&execution, 0).await.unwrap();
        while let Some(event) = events.next().await.unwrap() {
            if let pinfold_api::OutputEvent::Exit { exit_code, .. } = event {
                assert_eq!(exit_code, Some(0));
            }
        }
        let plain = ground.sh_in_background(&id, crate::ground::sh("sleep 100")).await;
        let size = json!({ "columns": 91, "rows": 37 });
        let refused = ground.post(&format!("/api/executions/{plain}/resize"), size).await;
        assert_eq!((refused.status, refused.code()), (409, pinfold_api::ErrorCode::WrongState));
    })
    .await;
}
