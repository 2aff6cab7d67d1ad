//! The service on the network: routes by resource, one file each, and the layers that every request passes.
//! `assemble` shows the order of the layers, the outermost last.

mod agents;
mod alerts;
mod answer;
mod artifacts;
mod auth;
mod care;
mod chores;
mod cleanup;
mod events;
mod executions;
mod extract;
mod files;
mod groups;
mod images;
mod listen;
mod logs;
mod metrics;
mod noting;
mod openapi;
mod origin;
mod output;
mod paging;
mod queue;
#[cfg(test)]
mod reference;
mod refusals;
mod requests;
mod runs;
mod sandboxes;
mod spans;
mod terminal;
mod timing;
mod tls;
mod tokens;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use pinfold_api::ErrorCode;
use tower_http::catch_panic::CatchPanicLayer;

pub use listen::{Door, serve};
pub use openapi::document;
pub use tls::{Tls, TlsError};

pub use crate::housekeeping::Housekeeping;
use crate::telemetry::TelemetryConfig;
use crate::{Failure, Service};
use auth::Doorkeeper;
use groups::Group;
use origin::Names;
use refusals::Refusals;

/// How the server behaves towards those who ask.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Names beside `localhost` and addresses that this server answers to.
    pub names: Vec<String>,
    /// Requests of one token in a second, and at once.
    pub rate: NonZeroU32,
    pub burst: NonZeroU32,
    /// Wrong tokens from one address in a minute. Whoever shows a right one is let in all the same.
    pub wrong_tokens: NonZeroU32,
    pub connections: usize,
    pub housekeeping: Housekeeping,
    /// How long figures over time are kept.
    pub keep_figures: Duration,
    /// Where traces and figures are sent. None: nowhere.
    pub telemetry: Option<TelemetryConfig>,
}

const RATE: NonZeroU32 = NonZeroU32::new(1_000).unwrap();
/// More than somebody mistypes, and nothing to somebody who guesses.
const WRONG_TOKENS: NonZeroU32 = NonZeroU32::new(300).unwrap();
const BURST: NonZeroU32 = NonZeroU32::new(2_000).unwrap();
const KEEP_FIGURES: Duration = Duration::from_secs(7 * 24 * 3_600);

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            names: Vec::new(),
            rate: RATE,
            burst: BURST,
            wrong_tokens: WRONG_TOKENS,
            connections: 4_096,
            housekeeping: Housekeeping::default(),
            keep_figures: KEEP_FIGURES,
            telemetry: None,
        }
    }
}

/// Every group of routes there is.
fn groups() -> Vec<Group> {
    [
        sandboxes::groups(),
        runs::groups(),
        queue::groups(),
        executions::groups(),
        output::groups(),
        terminal::groups(),
        events::groups(),
        care::groups(),
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
    let doorkeeper = Arc::new(Doorkeeper::new(service.clone(), config));
    let names = Arc::new(Names::new(&config.names));
    let guarded = groups().into_iter().fold(Router::new(), |all, group| all.merge(group.into_router()));
    let spans = service.host().spans.clone();
    let all = guarded
        .fallback(unknown_route)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(doorkeeper, auth::let_in))
        .merge(chores::public())
        .with_state(service.clone())
        .layer(from_fn_with_state(names, origin::check))
        .layer(from_fn_with_state(Arc::<Refusals>::default(), refusals::tell))
        .layer(CatchPanicLayer::custom(requests::after_panic))
        .layer(from_fn(requests::account_for))
        .layer(from_fn_with_state(service, timing::take_the_time));
    if spans.are_wanted() { all.layer(from_fn_with_state(spans, spans::trace)) } else { all }
}

async fn unknown_route() -> Failure {
    Failure::new(ErrorCode::UnknownRoute, "there is nothing here; `/openapi.json` says what there is")
}

async fn method_not_allowed() -> Failure {
    Failure::new(ErrorCode::MethodNotAllowed, "this cannot be asked here; `/openapi.json` says what can")
}
