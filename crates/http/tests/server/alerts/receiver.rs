//! A webhook receiver that records every message and answers as the test wants.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// One received message.
#[derive(Debug, Clone)]
pub(super) struct ReceivedMessage {
    headers: HeaderMap,
    pub(super) body: Bytes,
}

impl ReceivedMessage {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Behaviour {
    Answers(u16),
    /// Accepts the message and never answers.
    Hangs,
}

#[derive(Clone, Default)]
struct SharedState {
    received: Arc<Mutex<Vec<ReceivedMessage>>>,
    behaviours: Arc<Mutex<VecDeque<Behaviour>>>,
}

pub(super) struct Receiver {
    pub(super) url: String,
    state: SharedState,
    task: JoinHandle<()>,
}

impl Receiver {
    /// Shows these behaviours for the first messages, then answers with success.
    pub(super) async fn start(behaviours: &[Behaviour]) -> Self {
        let state = SharedState::default();
        state.behaviours.lock().unwrap().extend(behaviours);
        let router = Router::new().route("/hook", post(take)).with_state(state.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, state, task }
    }

    pub(super) fn received(&self) -> Vec<ReceivedMessage> {
        self.state.received.lock().unwrap().clone()
    }

    /// Waits for `count` messages that match.
    pub(super) async fn until(
        &self,
        count: usize,
        is_wanted: impl Fn(&ReceivedMessage) -> bool,
    ) -> Vec<ReceivedMessage> {
        let poll = async {
            loop {
                let wanted: Vec<_> = self.received().into_iter().filter(&is_wanted).collect();
                if wanted.len() >= count {
                    return wanted;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(20), poll).await;
        waited.unwrap_or_else(|_| panic!("{count} messages did not arrive: {:?}", self.received()))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn take(State(state): State<SharedState>, headers: HeaderMap, body: Bytes) -> StatusCode {
    state.received.lock().unwrap().push(ReceivedMessage { headers, body });
    let behaviour = state.behaviours.lock().unwrap().pop_front();
    match behaviour {
        None => StatusCode::NO_CONTENT,
        Some(Behaviour::Answers(status)) => StatusCode::from_u16(status).unwrap(),
        Some(Behaviour::Hangs) => std::future::pending().await,
    }
}
