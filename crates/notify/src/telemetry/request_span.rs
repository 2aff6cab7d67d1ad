//! One span per HTTP request, from its head until its response begins. It continues the caller's trace.

use hyper::{HeaderMap, Method, StatusCode};
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{SpanKind, Status, TraceContextExt};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use pinfold_lifecycle::SandboxId;

use super::Spans;
use super::spans::{Tracing, sandbox, to_i64};

/// The length that the W3C specification requires; longer values are ignored.
const LONGEST_STATE: usize = 512;

/// The span of a request. It ends when this is dropped.
pub struct RequestSpan<'a> {
    tracing: &'a Tracing,
    context: Context,
}

impl Spans {
    /// Starts the span of a request. None: tracing is off. The name has the route template, so the number of names is
    /// bounded.
    pub fn start_request(
        &self,
        method: &Method,
        template: Option<&str>,
        headers: &HeaderMap,
    ) -> Option<RequestSpan<'_>> {
        let tracing = self.tracing()?;
        let method = method_name(method);
        let mut attributes = vec![KeyValue::new("http.request.method", method)];
        attributes.extend(template.map(|route| KeyValue::new("http.route", route.to_owned())));
        let name = match template {
            Some(route) => format!("{method} {route}"),
            None => method.to_owned(),
        };
        let parent = TraceContextPropagator::new().extract_with_context(&Context::new(), &Headers(headers));
        let context = tracing.begin(name, SpanKind::Server, &parent, tracing.clock.now(), attributes);
        Some(RequestSpan { tracing, context })
    }
}

impl RequestSpan<'_> {
    /// The context for the code that handles the request.
    pub fn context(&self) -> Context {
        self.context.clone()
    }

    pub fn answered(self, status: StatusCode, concerns: Option<SandboxId>) {
        let span = self.context.span();
        span.set_attribute(KeyValue::new("http.response.status_code", to_i64(status.as_u16().into())));
        if let Some(id) = concerns {
            span.set_attribute(sandbox(id));
        }
        if status.is_server_error() {
            span.set_status(Status::error(status.as_u16().to_string()));
        }
    }
}

impl Drop for RequestSpan<'_> {
    fn drop(&mut self) {
        self.context.span().end_with_timestamp(self.tracing.clock.now());
    }
}

/// A bounded set: clients can send any method.
fn method_name(method: &Method) -> &'static str {
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

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok().filter(|value| value.len() <= LONGEST_STATE)
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(hyper::header::HeaderName::as_str).collect()
    }
}
