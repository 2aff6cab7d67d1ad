//! `/api/executions/{id}/pty`: a terminal over a WebSocket, and `…/resize` for clients without one. Binary frames are
//! bytes in both directions, text frames are JSON. Output is buffered in the log, so a slow reader does not block the
//! process and a client can reconnect.

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
use pinfold_api::{ErrorCode, OutputEvent, TerminalControl, TerminalPosition, TerminalSize};
use pinfold_lifecycle::{ExecutionId, TokenId};
use pinfold_store::Role;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::Receiver;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::auth::until_revoked;
use super::error_response::ErrorResponse;
use super::executions::ExecutionPath;
use super::extract::{Id, Json, Query, number};
use super::listen::ConnectionPermit;
use super::route_groups::{Group, SHORT_TIMEOUT};
use pinfold_service::Caller;
use pinfold_service::{Failure, Service};

pub(super) fn groups() -> Vec<Group> {
    vec![Group::of(Role::Operator, SHORT_TIMEOUT).routes(routes!(attach)).routes(routes!(resize))]
}

/// The largest incoming frame.
const LONGEST_FRAME: usize = 1 << 20;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct AttachQuery {
    /// The sequence number of the last output that was read.
    #[serde(default, deserialize_with = "number")]
    after: Option<u64>,
}

/// Attach to the terminal of an execution with `tty`, over a WebSocket. Binary frames are bytes, both ways. Text
/// frames to the server are `{"resize": {"columns": 80, "rows": 24}}`; from the server they are `{"seq": …}` after
/// the bytes up to that number, or a `gap`, `exit` or `error` event as in an output stream.
#[utoipa::path(get, operation_id = "attach_terminal", path = "/api/executions/{id}/pty", tag = "executions", params(ExecutionPath, AttachQuery),
    responses((status = 101, description = "Switching to WebSocket frames")))]
async fn attach(
    State(service): State<Arc<Service>>,
    Id(id): Id<ExecutionId>,
    Query(query): Query<AttachQuery>,
    Extension(caller): Extension<Caller>,
    Extension(permit): Extension<ConnectionPermit>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ErrorResponse> {
    if !service.execution(id).await?.tty {
        return Err(Failure::new(ErrorCode::WrongState, "the execution has no terminal").into());
    }
    let upgrade = upgrade.map_err(|error| Failure::bad_input("upgrade", error))?;
    let events = service.follow(id, query.after.unwrap_or(0)).await?;
    let upgrade = upgrade.max_message_size(LONGEST_FRAME).max_frame_size(LONGEST_FRAME);
    let session = TerminalSession { service, execution: id, token: caller.token, permit };
    Ok(upgrade.on_upgrade(move |socket| session.run(events, socket)))
}

/// Set the terminal size of an execution, which may not have started yet.
#[utoipa::path(post, operation_id = "resize_terminal", path = "/api/executions/{id}/resize", tag = "executions", params(ExecutionPath),
    request_body = TerminalSize,
    responses((status = 200, description = "The size is set", body = TerminalSize)))]
async fn resize(
    State(service): State<Arc<Service>>,
    Id(id): Id<ExecutionId>,
    Json(size): Json<TerminalSize>,
) -> Result<Answer<TerminalSize>, ErrorResponse> {
    if !service.execution(id).await?.tty {
        return Err(Failure::new(ErrorCode::WrongState, "the execution has no terminal").into());
    }
    for (field, given) in [("columns", size.columns), ("rows", size.rows)] {
        if given == 0 {
            return Err(Failure::bad_input(field, "must be at least 1").into());
        }
    }
    service.resize(id, size).await?;
    Ok(Answer(size))
}

/// Why a terminal connection ends.
struct CloseReason {
    code: u16,
    why: String,
}

/// One terminal connection.
struct TerminalSession {
    service: Arc<Service>,
    execution: ExecutionId,
    token: TokenId,
    /// Held until the connection ends.
    permit: ConnectionPermit,
}

impl TerminalSession {
    async fn run(self, events: Receiver<OutputEvent>, socket: WebSocket) {
        let (mut writer, reader) = socket.split();
        let recheck_interval = self.permit.recheck_interval;
        let over = tokio::select! {
            over = send_output(&mut writer, events, recheck_interval) => over,
            over = receive_input(&self.service, self.execution, reader) => over,
            () = until_revoked(self.service.clone(), self.token, recheck_interval) => {
                Some(CloseReason { code: close_code::POLICY, why: "the token was revoked".to_owned() })
            }
        };
        if let Some(CloseReason { code, why }) = over {
            let frame = CloseFrame { code, reason: why.into() };
            // A client that is gone does not need it.
            let _ = writer.send(Message::Close(Some(frame))).await;
        }
    }
}

/// Sends output to the client. None: the client is gone.
async fn send_output(
    writer: &mut SplitSink<WebSocket, Message>,
    mut events: Receiver<OutputEvent>,
    recheck_interval: Duration,
) -> Option<CloseReason> {
    loop {
        let Ok(event) = tokio::time::timeout(recheck_interval, events.recv()).await else {
            // While input waits for a program that does not read, incoming frames are not read either: a failed ping
            // shows that the client is gone.
            writer.send(Message::Ping(Bytes::new())).await.ok()?;
            continue;
        };
        let event = event?;
        let seq = event.seq();
        let over = match &event {
            OutputEvent::Exit { .. } => {
                Some(CloseReason { code: close_code::NORMAL, why: "the execution has ended".to_owned() })
            }
            OutputEvent::Error { message, .. } => {
                Some(CloseReason { code: close_code::AGAIN, why: message.clone() })
            }
            OutputEvent::Stdout { .. } | OutputEvent::Stderr { .. } | OutputEvent::Gap { .. } => None,
        };
        match event {
            OutputEvent::Stdout { text, base64, .. } | OutputEvent::Stderr { text, base64, .. } => {
                let bytes = text.map(String::into_bytes);
                let bytes = bytes.or_else(|| STANDARD.decode(base64.unwrap_or_default()).ok());
                writer.send(Message::Binary(bytes.unwrap_or_default().into())).await.ok()?;
                writer.send(text_frame(&TerminalPosition { seq })).await.ok()?;
            }
            other @ (OutputEvent::Gap { .. } | OutputEvent::Exit { .. } | OutputEvent::Error { .. }) => {
                writer.send(text_frame(&other)).await.ok()?;
            }
        }
        if over.is_some() {
            return over;
        }
    }
}

fn text_frame(what: &impl Serialize) -> Message {
    Message::Text(serde_json::to_string(what).unwrap_or_default().into())
}

async fn receive_input(
    service: &Service,
    id: ExecutionId,
    mut reader: SplitStream<WebSocket>,
) -> Option<CloseReason> {
    let wrong = |why: String| CloseReason { code: close_code::POLICY, why };
    while let Some(Ok(message)) = reader.next().await {
        let taken = match message {
            Message::Binary(bytes) => service.write_stdin_all(id, &bytes).await,
            Message::Text(text) => match serde_json::from_str::<TerminalControl>(&text) {
                Ok(TerminalControl { resize }) if resize.columns > 0 && resize.rows > 0 => {
                    service.resize(id, resize).await
                }
                Ok(_) => return Some(wrong("columns and rows must be at least 1".to_owned())),
                Err(error) => return Some(wrong(format!("invalid control message: {error}"))),
            },
            Message::Close(_) => return None,
            Message::Ping(_) | Message::Pong(_) => Ok(()),
        };
        match taken {
            // The output side reports the end; input after it is dropped.
            Ok(()) => {}
            Err(failure) if failure.detail.code == ErrorCode::WrongState => {}
            Err(failure) => {
                return Some(CloseReason { code: close_code::AGAIN, why: failure.detail.message });
            }
        }
    }
    None
}
