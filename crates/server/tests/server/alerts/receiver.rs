//! Somebody who can be called over HTTP: remembers every message, and answers as the test wants.

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

/// One message as it came.
#[derive(Debug, Clone)]
pub(super) struct Got {
    headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Got {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Manner {
    Answers(u16),
    /// Takes the message, and never says a word.
    Hangs,
}

#[derive(Clone, Default)]
struct Memory {
    got: Arc<Mutex<Vec<Got>>>,
    manners: Arc<Mutex<VecDeque<Manner>>>,
}

pub(super) struct Receiver {
    pub(super) url: String,
    memory: Memory,
    task: JoinHandle<()>,
}

impl Receiver {
    /// Behaves so for the first messages, and well after that.
    pub(super) async fn begin(manners: &[Manner]) -> Self {
        let memory = Memory::default();
        memory.manners.lock().unwrap().extend(manners);
        let router = Router::new().route("/hook", post(take)).with_state(memory.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, memory, task }
    }

    pub(super) fn got(&self) -> Vec<Got> {
        self.memory.got.lock().unwrap().clone()
    }

    /// Waits until there are so many that are of interest.
    pub(super) async fn until(&self, count: usize, is_wanted: impl Fn(&Got) -> bool) -> Vec<Got> {
        let look = async {
            loop {
                let wanted: Vec<_> = self.got().into_iter().filter(&is_wanted).collect();
                if wanted.len() >= count {
                    return wanted;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(20), look).await;
        waited.unwrap_or_else(|_| panic!("there were not {count} messages: {:?}", self.got()))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn take(State(memory): State<Memory>, headers: HeaderMap, body: Bytes) -> StatusCode {
    memory.got.lock().unwrap().push(Got { headers, body });
    let manner = memory.manners.lock().unwrap().pop_front();
    match manner {
        None => StatusCode::NO_CONTENT,
        Some(Manner::Answers(status)) => StatusCode::from_u16(status).unwrap(),
        Some(Manner::Hangs) => std::future::pending().await,
    }
}
