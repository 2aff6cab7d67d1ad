//! Creation of OpenTelemetry spans. Everything here does nothing until tracing is enabled.
//!
//! Times and parents are set explicitly instead of using the spans of `tracing`: those end only after all their
//! children, and carry unrelated log fields.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{Span as _, SpanKind, Status, TraceContextExt, Tracer, TracerProvider};
use opentelemetry::{Context, InstrumentationScope, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider, SpanLimits, SpanProcessor};
use pinfold_lifecycle::{ProbeResult, SandboxId, Timestamp};
use pinfold_metrics::word;
use pinfold_provider::InstanceId;
use tokio::time::Instant;

use super::clock::SpanClock;
use super::operations::{OpenOperations, Operation};
use super::otlp;

pub(super) const SANDBOX: &str = "pinfold.sandbox.id";
pub(super) const GENERATION: &str = "pinfold.generation";
pub(super) const OUTCOME: &str = "pinfold.outcome";
pub(super) const CAUSE: &str = "pinfold.cause";

/// The spans of this process.
#[derive(Clone, Default)]
pub struct Spans(Arc<OnceLock<Tracing>>);

pub(super) struct Tracing {
    tracer: SdkTracer,
    pub(super) clock: SpanClock,
    open: Mutex<OpenOperations>,
}

/// More than any of our spans has.
const ATTRIBUTES: u32 = 16;
const EVENTS: u32 = 16;

impl Spans {
    /// Enables tracing. Set once.
    pub(super) fn begin(&self, queue: impl SpanProcessor + 'static, now: Timestamp) {
        let limits = SpanLimits {
            max_attributes_per_span: ATTRIBUTES,
            max_events_per_span: EVENTS,
            max_links_per_span: 0,
            max_attributes_per_event: ATTRIBUTES,
            max_attributes_per_link: 0,
        };
        // Environment variables have no effect. The caller's sampling decision is respected.
        let provider = SdkTracerProvider::builder()
            .with_span_processor(queue)
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::AlwaysOn)))
            .with_span_limits(limits)
            .with_resource(Resource::builder_empty().build())
            .build();
        let scope = InstrumentationScope::builder(otlp::SCOPE).with_version(otlp::VERSION).build();
        let tracer = provider.tracer_with_scope(scope);
        let _ = self.0.set(Tracing { tracer, clock: SpanClock::set_to(now), open: Mutex::default() });
    }

    pub fn are_enabled(&self) -> bool {
        self.0.get().is_some()
    }

    pub(super) fn tracing(&self) -> Option<&Tracing> {
        self.0.get()
    }

    /// Runs a probe in a span.
    pub async fn probing(
        &self,
        instance: InstanceId,
        probe: impl Future<Output = ProbeResult>,
    ) -> ProbeResult {
        let began = Instant::now();
        let probed = probe.await;
        self.probed(instance, &probed, began.elapsed());
        probed
    }

    /// The span of a probe that has just ended. During a create it is a child of the create span.
    pub fn probed(&self, instance: InstanceId, probed: &ProbeResult, took: Duration) {
        let Some(tracing) = self.tracing() else { return };
        let parent =
            tracing.open().context_of(Operation::Create(instance.sandbox)).unwrap_or_else(Context::current);
        let now = tracing.clock.now();
        let began = now.checked_sub(took).unwrap_or(now);
        let (verdict, status) = match probed {
            ProbeResult::Passed => ("passed", Status::Unset),
            ProbeResult::Failed(_) => ("failed", Status::error("failed")),
            ProbeResult::Unknown { .. } => ("unknown", Status::error("unknown")),
        };
        let attributes = vec![sandbox(instance.sandbox), generation(instance.generation.0), outcome(verdict)];
        tracing.record("probe", &parent, began, attributes, status);
    }

    /// The span of a cleanup run that has just ended.
    pub fn cleaned(
        &self,
        layer: &'static str,
        took_ms: u64,
        succeeded: bool,
        numbers: [(&'static str, u64); 3],
    ) {
        let Some(tracing) = self.tracing() else { return };
        let mut attributes = vec![KeyValue::new("pinfold.cleanup.layer", layer)];
        attributes.extend(numbers.map(|(name, number)| KeyValue::new(name, to_i64(number))));
        tracing.record_past("cleanup", took_ms, succeeded, attributes);
    }
}

impl Tracing {
    pub(super) fn open(&self) -> MutexGuard<'_, OpenOperations> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a span in a new context.
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

    /// Records a finished span.
    fn record(
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

    /// Records a span of the given duration that ends now. The current context is the parent.
    pub(super) fn record_past(
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
        // The engine's clock truncates to milliseconds.
        let took = Duration::from_millis(took_ms.saturating_sub(1));
        let now = self.clock.now();
        self.record(name, &Context::current(), now.checked_sub(took).unwrap_or(now), attributes, status);
    }
}

pub(super) fn sandbox(id: SandboxId) -> KeyValue {
    KeyValue::new(SANDBOX, id.to_string())
}

pub(super) fn generation(number: u64) -> KeyValue {
    KeyValue::new(GENERATION, to_i64(number))
}

pub(super) fn outcome(name: impl Into<Cow<'static, str>>) -> KeyValue {
    KeyValue::new(OUTCOME, name.into())
}

pub(super) fn cause(of: pinfold_lifecycle::Cause) -> KeyValue {
    KeyValue::new(CAUSE, word(&of))
}

/// OTLP integers are signed.
pub(super) fn to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
