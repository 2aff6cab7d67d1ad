//! `/api/executions/{id}/pty`: a terminal over a WebSocket; `…/resize`: its size, for those who have no such connection. Binary frames are bytes in both directions, text frames are
//! JSON. What is written waits in the log, so that nobody who reads slowly holds it up, and who comes back reads on.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use axum::{Extension, Json as Answer};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use pinfold_api::{ErrorCode, OutputEvent, TerminalRead, TerminalSaying, TerminalSize};
use pinfold_lifecycle::{ExecutionId, TokenId};
use pinfold_store::Role;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::Receiver;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::auth::until_revoked;
use super::executions::ExecutionPath;
use super::extract::{Id, Json, Query, number};
use super::groups::{Group, QUICK};
use super::listen::Place;
use crate::service::Caller;
use crate::{Failure, Service};

pub(super) fn groups() -> Vec<Group> {
    vec![Group::of(Role::Operator, QUICK).routes(routes!(attach)).routes(routes!(resize))]
}

/// Of one frame that comes in.
const LONGEST_FRAME: usize = 1 << 20;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct AttachQuery {
    /// The number of the last output that was read.
    #[serde(default, deserialize_with = "number")]
    after: Option<u64>,
}

/// Sit down at the terminal of an execution that was asked for with `tty`, over a WebSocket. Binary frames are bytes,
/// both ways. Text frames to the server are `{"resize": {"columns": 80, "rows": 24}}`; from it they are
/// `{"seq": …}` after the bytes up to that number, or an event `gap`, `exit` or `error` as in a stream of output.
#[utoipa::path(get, operation_id = "attach_terminal", path = "/api/executions/{id}/pty", tag = "executions", params(ExecutionPath, AttachQuery),
    responses((status = 101, description = "Frames follow")))]
async fn attach(
    State(service): State<Arc<Service>>,
    Id(id): Id<ExecutionId>,
    Query(query): Query<AttachQuery>,
    Extension(caller): Extension<Caller>,
    Extension(place): Extension<Place>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Failure> {
    if !service.execution(id).await?.tty {
        return Err(Failure::new(ErrorCode::WrongState, "the execution has no terminal"));
    }
    let upgrade = upgrade.map_err(|error| Failure::bad_input("upgrade", error))?;
    let events = service.follow(id, query.after.unwrap_or(0)).await?;
    let upgrade = upgrade.max_message_size(LONGEST_FRAME).max_frame_size(LONGEST_FRAME);
    let sitter = Sitter { service, execution: id, token: caller.token, place };
    Ok(upgrade.on_upgrade(move |socket| sitter.converse(events, socket)))
}

/// Say how large the terminal of an execution is now; it may not even run yet.
#[utoipa::path(post, operation_id = "resize_terminal", path = "/api/executions/{id}/resize", tag = "executions", params(ExecutionPath),
    request_body = TerminalSize,
    responses((status = 200, description = "It is that large", body = TerminalSize)))]
async fn resize(
    State(service): State<Arc<Service>>,
    Id(id): Id<ExecutionId>,
    Json(size): Json<TerminalSize>,
) -> Result<Answer<TerminalSize>, Failure> {
    if !service.execution(id).await?.tty {
        return Err(Failure::new(ErrorCode::WrongState, "the execution has no terminal"));
    }
    for (field, given) in [("columns", size.columns), ("rows", size.rows)] {
        if given == 0 {
            return Err(Failure::bad_input(field, "a terminal has at least one"));
        }
    }
    service.resize(id, size).await?;
    Ok(Answer(size))
}

/// Why a conversation is over.
struct Over {
    code: u16,
    why: String,
}

/// Whoever sits at a terminal.
struct Sitter {
    service: Arc<Service>,
    execution: ExecutionId,
    token: TokenId,
    /// Kept until this is over.
    place: Place,
}

impl Sitter {
    async fn converse(self, events: Receiver<OutputEvent>, socket: WebSocket) {
        let (mut writer, reader) = socket.split();
        let look_again = self.place.look_again;
        let over = tokio::select! {
            over = speak(&mut writer, events, look_again) => over,
            over = listen(&self.service, self.execution, reader) => over,
            () = until_revoked(self.service.clone(), self.token, look_again) => {
                Some(Over { code: close_code::POLICY, why: "the token was revoked".to_owned() })
            }
        };
        if let Some(Over { code, why }) = over {
            let frame = CloseFrame { code, reason: why.into() };
            // Who is gone does not need it.
            let _ = writer.send(Message::Close(Some(frame))).await;
        }
    }
}

/// None: nobody listens any more.
async fn speak(
    writer: &mut SplitSink<WebSocket, Message>,
    mut events: Receiver<OutputEvent>,
    look_again: Duration,
) -> Option<Over> {
    loop {
        let Ok(event) = tokio::time::timeout(look_again, events.recv()).await else {
            // While what was typed waits for a program that does not read, nobody listens to the other end: that it is
            // gone is noticed here.
            writer.send(Message::Ping(Bytes::new())).await.ok()?;
            continue;
        };
        let event = event?;
        let seq = event.seq();
        let over = match &event {
            OutputEvent::Exit { .. } => {
                Some(Over { code: close_code::NORMAL, why: "it has ended".to_owned() })
            }
            OutputEvent::Error { message, .. } => {
                Some(Over { code: close_code::AGAIN, why: message.clone() })
            }
            OutputEvent::Stdout { .. } | OutputEvent::Stderr { .. } | OutputEvent::Gap { .. } => None,
        };
        match event {
            OutputEvent::Stdout { text, base64, .. } | OutputEvent::Stderr { text, base64, .. } => {
                let bytes = text.map(String::into_bytes);
                let bytes = bytes.or_else(|| STANDARD.decode(base64.unwrap_or_default()).ok());
                writer.send(Message::Binary(bytes.unwrap_or_default().into())).await.ok()?;
                writer.send(said(&TerminalRead { seq })).await.ok()?;
            }
            told @ (OutputEvent::Gap { .. } | OutputEvent::Exit { .. } | OutputEvent::Error { .. }) => {
                writer.send(said(&told)).await.ok()?;
            }
        }
        if over.is_some() {
            return over;
        }
    }
}

fn said(what: &impl Serialize) -> Message {
    Message::Text(serde_json::to_string(what).unwrap_or_default().into())
}

async fn listen(service: &Service, id: ExecutionId, mut reader: SplitStream<WebSocket>) -> Option<Over> {
    let wrong = |why: String| Over { code: close_code::POLICY, why };
    while let Some(Ok(message)) = reader.next().await {
        let taken = match message {
            Message::Binary(bytes) => service.feed_on(id, &bytes).await,
            Message::Text(text) => match serde_json::from_str::<TerminalSaying>(&text) {
                Ok(TerminalSaying { resize }) if resize.columns > 0 && resize.rows > 0 => {
                    service.resize(id, resize).await
                }
                Ok(_) => return Some(wrong("a terminal has columns and rows".to_owned())),
                Err(error) => return Some(wrong(format!("not understood: {error}"))),
            },
            Message::Close(_) => return None,
            Message::Ping(_) | Message::Pong(_) => Ok(()),
        };
        match taken {
            // Its end is told by who speaks; what is typed after it is nobody's.
            Ok(()) => {}
            Err(failure) if failure.detail.code == ErrorCode::WrongState => {}
            Err(failure) => return Some(Over { code: close_code::AGAIN, why: failure.detail.message }),
        }
    }
    None
}
