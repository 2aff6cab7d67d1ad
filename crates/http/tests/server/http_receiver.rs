//! An HTTP server that records every POST request and answers as the test wants.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::routing::post;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

#[derive(Debug, Clone)]
pub(crate) struct ReceivedMessage {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl ReceivedMessage {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Behaviour {
    Answers(u16),
    /// Accepts the message and never answers.
    Hangs,
}

#[derive(Clone, Default)]
struct SharedState {
    received: Arc<Mutex<Vec<ReceivedMessage>>>,
    behaviours: Arc<Mutex<VecDeque<Behaviour>>>,
    /// Behaviour after the listed ones. None: success.
    otherwise: Option<Behaviour>,
}

/// Stops when dropped.
pub(crate) struct HttpReceiver {
    /// `http://`, host and port.
    pub(crate) address: String,
    state: SharedState,
    task: JoinHandle<()>,
}

impl HttpReceiver {
    /// Shows these behaviours for the first messages, then `otherwise`.
    pub(crate) async fn start(behaviours: &[Behaviour], otherwise: Option<Behaviour>) -> Self {
        let state = SharedState { otherwise, ..SharedState::default() };
        state.behaviours.lock().unwrap().extend(behaviours);
        Self::serve(state, TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    /// Listens on a given address.
    pub(crate) async fn at(address: &str) -> Self {
        let listener = TcpListener::bind(address.trim_start_matches("http://")).await.unwrap();
        Self::serve(SharedState::default(), listener)
    }

    fn serve(state: SharedState, listener: TcpListener) -> Self {
        let address = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(post(take)).with_state(state.clone());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, state, task }
    }

    pub(crate) fn received(&self) -> Vec<ReceivedMessage> {
        self.state.received.lock().unwrap().clone()
    }
}

impl Drop for HttpReceiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn take(State(state): State<SharedState>, uri: Uri, headers: HeaderMap, body: Bytes) -> StatusCode {
    state.received.lock().unwrap().push(ReceivedMessage { path: uri.path().to_owned(), headers, body });
    let behaviour = state.behaviours.lock().unwrap().pop_front();
    match behaviour.or(state.otherwise) {
        None => StatusCode::OK,
        Some(Behaviour::Answers(status)) => StatusCode::from_u16(status).unwrap(),
        Some(Behaviour::Hangs) => std::future::pending().await,
    }
}
