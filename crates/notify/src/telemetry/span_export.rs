//! Exports spans in batches. Ended spans go into a bounded queue without waiting; when the queue is full, spans are
//! dropped and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use opentelemetry::Context;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};
use prost::Message;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use super::collector_client::{CollectorClient, ExportError};
use super::{Shutdown, otlp};

/// Queue length. A span takes about 500 bytes.
const QUEUE_LENGTH: usize = 4_096;
/// Spans per request.
const BATCH_SPANS: usize = 512;
/// How long to wait for more spans before a request is sent.
const BATCH_DELAY: Duration = Duration::from_secs(1);
/// Pauses before the retries of a request.
const RETRY_PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];

#[derive(Debug)]
pub(super) struct SpanQueue {
    spans: mpsc::Sender<SpanData>,
    overflowed: Arc<AtomicU64>,
}

pub(super) struct SpanExporter {
    spans: mpsc::Receiver<SpanData>,
    overflowed: Arc<AtomicU64>,
    client: CollectorClient,
    resource: Resource,
}

impl SpanProcessor for SpanQueue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.spans.try_send(span).is_err() {
            self.overflowed.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

impl SpanExporter {
    pub(super) fn new(client: CollectorClient, resource: &Resource) -> (SpanQueue, Self) {
        let (sender, spans) = mpsc::channel(QUEUE_LENGTH);
        let overflowed = Arc::<AtomicU64>::default();
        let queue = SpanQueue { spans: sender, overflowed: overflowed.clone() };
        (queue, Self { spans, overflowed, client, resource: resource.clone() })
    }

    pub(super) async fn export(mut self, mut shutdown: Shutdown) {
        while let Some(spans) = self.next_batch(&mut shutdown).await {
            self.send(spans, &mut shutdown).await;
            let overflowed = self.overflowed.swap(0, Ordering::Relaxed);
            if overflowed > 0 {
                self.client.record_dropped(overflowed, "the span queue is full");
            }
        }
    }

    /// The next batch. None: shutdown, and the queue is empty.
    async fn next_batch(&mut self, shutdown: &mut Shutdown) -> Option<Vec<SpanData>> {
        let mut spans = Vec::new();
        tokio::select! {
            biased;
            () = shutdown.wait() => self.spans.close(),
            _ = self.spans.recv_many(&mut spans, BATCH_SPANS) => {}
        }
        let deadline = Instant::now() + BATCH_DELAY;
        while !spans.is_empty() && spans.len() < BATCH_SPANS && !shutdown.is_set() {
            let left = BATCH_SPANS - spans.len();
            tokio::select! {
                biased;
                () = shutdown.wait() => {}
                () = sleep_until(deadline) => break,
                _ = self.spans.recv_many(&mut spans, left) => {}
            }
        }
        let left = BATCH_SPANS - spans.len();
        if shutdown.is_set() && left > 0 {
            self.spans.close();
            self.spans.recv_many(&mut spans, left).await;
        }
        (!spans.is_empty()).then_some(spans)
    }

    async fn send(&mut self, spans: Vec<SpanData>, shutdown: &mut Shutdown) {
        let number = spans.len() as u64;
        let message = Bytes::from(self.message(spans).encode_to_vec());
        let mut pauses = RETRY_PAUSES.into_iter();
        loop {
            match (self.client.send(message.clone()).await, pauses.next()) {
                (Ok(()), _) => return,
                (Err(ExportError { retryable: true, .. }), Some(pause)) if !shutdown.is_set() => {
                    tokio::select! {
                        () = sleep(pause) => {}
                        () = shutdown.wait() => {}
                    }
                }
                (Err(ExportError { why, .. }), _) => return self.client.record_dropped(number, &why),
            }
        }
    }

    fn message(&self, spans: Vec<SpanData>) -> ExportTraceServiceRequest {
        let spans = spans.into_iter().map(Into::into).collect();
        let scope_spans = vec![ScopeSpans { scope: Some(otlp::scope()), spans, ..ScopeSpans::default() }];
        let resource = Some(self.resource.clone());
        ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans { resource, scope_spans, ..ResourceSpans::default() }],
        }
    }
}
