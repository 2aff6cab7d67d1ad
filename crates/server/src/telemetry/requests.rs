//! One span for each request, from its head until its answer begins. The caller's own trace goes on in it.

use axum::http::{HeaderMap, Method, StatusCode};
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{SpanKind, Status, TraceContextExt};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use pinfold_lifecycle::SandboxId;

use super::Spans;
use super::spans::{Tracing, sandbox, whole};

/// What W3C asks everybody to take, and no more is kept.
const LONGEST_STATE: usize = 512;

/// A request that is not answered yet. Its span ends with it, however that ends.
pub(crate) struct Asked<'a> {
    tracing: &'a Tracing,
    context: Context,
}

impl Spans {
    /// None: nobody wants to know. The name has the template and no path, so there are as many as there are routes.
    pub(crate) fn asked(
        &self,
        method: &Method,
        template: Option<&str>,
        headers: &HeaderMap,
    ) -> Option<Asked<'_>> {
        let tracing = self.tracing()?;
        let method = known(method);
        let mut attributes = vec![KeyValue::new("http.request.method", method)];
        attributes.extend(template.map(|route| KeyValue::new("http.route", route.to_owned())));
        let name = match template {
            Some(route) => format!("{method} {route}"),
            None => method.to_owned(),
        };
        let parent = TraceContextPropagator::new().extract_with_context(&Context::new(), &Given(headers));
        let context = tracing.begin(name, SpanKind::Server, &parent, tracing.clock.now(), attributes);
        Some(Asked { tracing, context })
    }
}

impl Asked<'_> {
    /// For whoever works on the answer.
    pub(crate) fn context(&self) -> Context {
        self.context.clone()
    }

    pub(crate) fn answered(self, status: StatusCode, concerns: Option<SandboxId>) {
        let span = self.context.span();
        span.set_attribute(KeyValue::new("http.response.status_code", whole(status.as_u16().into())));
        if let Some(id) = concerns {
            span.set_attribute(sandbox(id));
        }
        if status.is_server_error() {
            span.set_status(Status::error(status.as_u16().to_string()));
        }
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.context.span().end_with_timestamp(self.tracing.clock.now());
    }
}

/// Anybody can make up others.
fn known(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::PATCH => "PATCH",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => "_OTHER",
    }
}

struct Given<'a>(&'a HeaderMap);

impl Extractor for Given<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok().filter(|value| value.len() <= LONGEST_STATE)
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(axum::http::HeaderName::as_str).collect()
    }
}
