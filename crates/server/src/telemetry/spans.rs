//! Spans, once somebody has said where they go. Before that everything here does nothing.
//!
//! They are made with their times and parents told, and not by the spans of `tracing`: those end only when all that they
//! led to has, and carry along whatever else is logged meanwhile.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{Span as _, SpanKind, Status, TraceContextExt, Tracer, TracerProvider};
use opentelemetry::{Context, InstrumentationScope, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider, SpanLimits, SpanProcessor};
use pinfold_lifecycle::{Probed, SandboxId, Timestamp};
use pinfold_metrics::word;
use pinfold_provider::InstanceId;

use super::clock::SpanClock;
use super::operations::{Open, Operation};
use super::told;

pub(super) const SANDBOX: &str = "pinfold.sandbox.id";
pub(super) const GENERATION: &str = "pinfold.generation";
pub(super) const OUTCOME: &str = "pinfold.outcome";
pub(super) const CAUSE: &str = "pinfold.cause";

#[derive(Clone, Default)]
pub(crate) struct Spans(Arc<OnceLock<Tracing>>);

pub(super) struct Tracing {
    tracer: SdkTracer,
    pub(super) clock: SpanClock,
    open: Mutex<Open>,
}

/// More than any span of ours has.
const ATTRIBUTES: u32 = 16;
const EVENTS: u32 = 16;

impl Spans {
    /// The first who begins it stays the only one.
    pub(super) fn begin(&self, queue: impl SpanProcessor + 'static, now: Timestamp) {
        let limits = SpanLimits {
            max_attributes_per_span: ATTRIBUTES,
            max_events_per_span: EVENTS,
            max_links_per_span: 0,
            max_attributes_per_event: ATTRIBUTES,
            max_attributes_per_link: 0,
        };
        // All of it is decided here, whatever the environment says. Who asks decides whether the answer is traced.
        let provider = SdkTracerProvider::builder()
            .with_span_processor(queue)
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::AlwaysOn)))
            .with_span_limits(limits)
            .with_resource(Resource::builder_empty().build())
            .build();
        let scope = InstrumentationScope::builder(told::SCOPE).with_version(told::VERSION).build();
        let tracer = provider.tracer_with_scope(scope);
        let _ = self.0.set(Tracing { tracer, clock: SpanClock::set_to(now), open: Mutex::default() });
    }

    pub(crate) fn are_wanted(&self) -> bool {
        self.0.get().is_some()
    }

    pub(super) fn tracing(&self) -> Option<&Tracing> {
        self.0.get()
    }

    /// Tries a body. While a sandbox is created that is part of it.
    pub(crate) async fn probing(&self, body: InstanceId, probe: impl Future<Output = Probed>) -> Probed {
        let Some(tracing) = self.tracing() else { return probe.await };
        let parent =
            tracing.open().context_of(Operation::Create(body.sandbox)).unwrap_or_else(Context::current);
        let began = tracing.clock.now();
        let probed = probe.await;
        let (verdict, status) = match &probed {
            Probed::Passed => ("passed", Status::Unset),
            Probed::Failed(_) => ("failed", Status::error("failed")),
            Probed::Unknown { .. } => ("unknown", Status::error("unknown")),
        };
        let attributes = vec![sandbox(body.sandbox), generation(body.generation.0), outcome(verdict)];
        tracing.tell("probe", &parent, began, attributes, status);
        probed
    }

    /// A run of cleanup that has just ended.
    pub(crate) fn cleaned(
        &self,
        layer: &'static str,
        took_ms: u64,
        succeeded: bool,
        numbers: [(&'static str, u64); 3],
    ) {
        let Some(tracing) = self.tracing() else { return };
        let mut attributes = vec![KeyValue::new("pinfold.cleanup.layer", layer)];
        attributes.extend(numbers.map(|(name, number)| KeyValue::new(name, whole(number))));
        tracing.tell_past("cleanup", took_ms, succeeded, attributes);
    }
}

impl Tracing {
    pub(super) fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a span, in a context of its own.
    pub(super) fn begin(
        &self,
        name: impl Into<Cow<'static, str>>,
        kind: SpanKind,
        parent: &Context,
        began: SystemTime,
        attributes: Vec<KeyValue>,
    ) -> Context {
        let builder = self.tracer.span_builder(name).with_kind(kind).with_start_time(began);
        let span = builder.with_attributes(attributes).start_with_context(&self.tracer, parent);
        Context::new().with_span(span)
    }

    /// A span of something that is over.
    fn tell(
        &self,
        name: &'static str,
        parent: &Context,
        began: SystemTime,
        attributes: Vec<KeyValue>,
        status: Status,
    ) {
        let builder = self.tracer.span_builder(name).with_kind(SpanKind::Internal).with_start_time(began);
        let mut span = builder.with_attributes(attributes).start_with_context(&self.tracer, parent);
        span.set_status(status);
        span.end_with_timestamp(self.clock.now());
    }

    /// The same, of something that took so long and was asked for in this task, if anybody asked for it.
    pub(super) fn tell_past(
        &self,
        name: &'static str,
        took_ms: u64,
        succeeded: bool,
        mut attributes: Vec<KeyValue>,
    ) {
        let (word, status) = match succeeded {
            true => ("succeeded", Status::Unset),
            false => ("failed", Status::error("failed")),
        };
        attributes.push(outcome(word));
        // Its clock leaves out what is less than a millisecond.
        let took = Duration::from_millis(took_ms.saturating_sub(1));
        let now = self.clock.now();
        self.tell(name, &Context::current(), now.checked_sub(took).unwrap_or(now), attributes, status);
    }
}

pub(super) fn sandbox(id: SandboxId) -> KeyValue {
    KeyValue::new(SANDBOX, id.to_string())
}

pub(super) fn generation(number: u64) -> KeyValue {
    KeyValue::new(GENERATION, whole(number))
}

pub(super) fn outcome(told: impl Into<Cow<'static, str>>) -> KeyValue {
    KeyValue::new(OUTCOME, told.into())
}

pub(super) fn cause(of: pinfold_lifecycle::Cause) -> KeyValue {
    KeyValue::new(CAUSE, word(&of))
}

/// OTLP knows no larger ones.
pub(super) fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
