//! The HTTP API of a [`Service`]: one file per resource, and the middleware layers that every request passes.
//! `assemble` shows the order of the layers, outermost last.

mod accept;
mod admin;
mod agents;
mod alerts;
mod artifacts;
mod audit_log;
mod auth;
mod body_timeout;
mod cleanup;
mod connections;
#[cfg(test)]
mod docs_check;
mod error_response;
mod events;
mod executions;
mod extract;
mod files;
mod health;
mod images;
mod listen;
mod logs;
mod metrics;
mod openapi;
mod origin;
mod output;
mod paging;
mod proof;
mod queue;
mod refusal_log;
mod request_log;
mod request_metrics;
mod request_tracing;
mod route_groups;
mod runs;
mod sandboxes;
mod terminal;
mod tls;
mod tokens;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use pinfold_api::ErrorCode;
use pinfold_service::{Failure, LoopsConfig, Service};
use tower_http::catch_panic::CatchPanicLayer;

pub use listen::{Endpoint, serve};
pub use openapi::document;
pub use tls::{Tls, TlsError};

use auth::Authenticator;
use error_response::ErrorResponse;
use origin::Names;
use refusal_log::RefusalLog;
use route_groups::Group;

/// Configuration of the HTTP server.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Host names that the server answers to, besides `localhost` and addresses.
    pub names: Vec<String>,
    /// Requests per second of one token.
    pub rate: NonZeroU32,
    pub burst: NonZeroU32,
    /// Wrong tokens per minute from one address. Valid tokens from that address still work.
    pub wrong_tokens: NonZeroU32,
    /// Connections that have shown a valid token, terminals included.
    pub connections: usize,
    /// Further connections that have shown no valid token. A newer one replaces the oldest.
    pub connections_without_token: usize,
    /// How many of those may come from one address.
    pub connections_per_address: usize,
    /// Time limit for a request head and for the TLS handshake.
    pub head_timeout: Duration,
    /// How long a request body may bring nothing.
    pub body_timeout: Duration,
    /// What the server does besides answering.
    pub loops: LoopsConfig,
}

const RATE: NonZeroU32 = NonZeroU32::new(1_000).unwrap();
/// More than typing errors cause, far too few to guess a token.
const WRONG_TOKENS: NonZeroU32 = NonZeroU32::new(300).unwrap();
const BURST: NonZeroU32 = NonZeroU32::new(2_000).unwrap();

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            names: Vec::new(),
            rate: RATE,
            burst: BURST,
            wrong_tokens: WRONG_TOKENS,
            connections: 4_096,
            connections_without_token: 1_024,
            connections_per_address: 256,
            head_timeout: Duration::from_secs(15),
            body_timeout: Duration::from_secs(30),
            loops: LoopsConfig::default(),
        }
    }
}

/// All route groups.
fn groups() -> Vec<Group> {
    [
        sandboxes::groups(),
        runs::groups(),
        queue::groups(),
        executions::groups(),
        output::groups(),
        terminal::groups(),
        events::groups(),
        admin::groups(),
        cleanup::groups(),
        metrics::groups(),
        alerts::groups(),
        files::groups(),
        logs::groups(),
        agents::groups(),
        artifacts::groups(),
        images::groups(),
        tokens::groups(),
        openapi::groups(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn assemble(service: Arc<Service>, config: &ServerConfig) -> Router {
    let authenticator = Arc::new(Authenticator::new(service.clone(), config));
    let names = Arc::new(Names::new(&config.names));
    let guarded = groups().into_iter().fold(Router::new(), |all, group| all.merge(group.into_router()));
    let spans = service.spans().clone();
    let all = guarded
        .fallback(unknown_route)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(authenticator.clone(), auth::require_token))
        .merge(health::public())
        .merge(proof::public(authenticator))
        .with_state(service.clone())
        .layer(from_fn_with_state(config.body_timeout, body_timeout::limit_stalls))
        .layer(from_fn_with_state(names, origin::check))
        .layer(from_fn_with_state(Arc::<RefusalLog>::default(), refusal_log::log_refusals))
        .layer(CatchPanicLayer::custom(request_log::after_panic))
        .layer(from_fn(request_log::log_requests))
        .layer(from_fn_with_state(service, request_metrics::record_latency));
    if spans.are_enabled() { all.layer(from_fn_with_state(spans, request_tracing::trace)) } else { all }
}

async fn unknown_route() -> ErrorResponse {
    Failure::new(ErrorCode::UnknownRoute, "unknown path; `/openapi.json` lists all paths").into()
}

async fn method_not_allowed() -> ErrorResponse {
    Failure::new(
        ErrorCode::MethodNotAllowed,
        "method not allowed; `/openapi.json` lists the methods of each path",
    )
    .into()
}
