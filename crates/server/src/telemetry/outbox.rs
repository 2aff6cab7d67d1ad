//! Spans on their way out. Whoever ends one puts it into a queue and waits for nothing: where the queue is full, the span
//! is dropped and counted. A carrier takes them to the collector, many at a time.

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

use super::delivery::{Delivery, NotTaken};
use super::{Ending, told};

/// That wait. A span is some 500 bytes.
const WAITING: usize = 4_096;
/// In one message.
const AT_ONCE: usize = 512;
/// How long others are waited for.
const GATHER: Duration = Duration::from_secs(1);
/// Before a message is sent again, and as often.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];

#[derive(Debug)]
pub(super) struct Queue {
    spans: mpsc::Sender<SpanData>,
    overflown: Arc<AtomicU64>,
}

pub(super) struct Outbox {
    spans: mpsc::Receiver<SpanData>,
    overflown: Arc<AtomicU64>,
    delivery: Delivery,
    resource: Resource,
}

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.spans.try_send(span).is_err() {
            self.overflown.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

impl Outbox {
    pub(super) fn new(delivery: Delivery, resource: &Resource) -> (Queue, Self) {
        let (sender, spans) = mpsc::channel(WAITING);
        let overflown = Arc::<AtomicU64>::default();
        let queue = Queue { spans: sender, overflown: overflown.clone() };
        (queue, Self { spans, overflown, delivery, resource: resource.clone() })
    }

    pub(super) async fn carry(mut self, mut ending: Ending) {
        while let Some(spans) = self.gather(&mut ending).await {
            self.send(spans, &mut ending).await;
            let overflown = self.overflown.swap(0, Ordering::Relaxed);
            if overflown > 0 {
                self.delivery.lost(overflown, "more came than it took");
            }
        }
    }

    /// None: it has ended, and there are no more.
    async fn gather(&mut self, ending: &mut Ending) -> Option<Vec<SpanData>> {
        let mut spans = Vec::new();
        tokio::select! {
            biased;
            () = ending.come() => self.spans.close(),
            _ = self.spans.recv_many(&mut spans, AT_ONCE) => {}
        }
        let enough = Instant::now() + GATHER;
        while !spans.is_empty() && spans.len() < AT_ONCE && !ending.has_come() {
            let left = AT_ONCE - spans.len();
            tokio::select! {
                biased;
                () = ending.come() => {}
                () = sleep_until(enough) => break,
                _ = self.spans.recv_many(&mut spans, left) => {}
            }
        }
        let left = AT_ONCE - spans.len();
        if ending.has_come() && left > 0 {
            self.spans.close();
            self.spans.recv_many(&mut spans, left).await;
        }
        (!spans.is_empty()).then_some(spans)
    }

    async fn send(&mut self, spans: Vec<SpanData>, ending: &mut Ending) {
        let number = spans.len() as u64;
        let message = Bytes::from(self.message(spans).encode_to_vec());
        let mut pauses = PAUSES.into_iter();
        loop {
            match (self.delivery.deliver(message.clone()).await, pauses.next()) {
                (Ok(()), _) => return,
                (Err(NotTaken { may_be_later: true, .. }), Some(pause)) if !ending.has_come() => {
                    tokio::select! {
                        () = sleep(pause) => {}
                        () = ending.come() => {}
                    }
                }
                (Err(NotTaken { why, .. }), _) => return self.delivery.lost(number, &why),
            }
        }
    }

    fn message(&self, spans: Vec<SpanData>) -> ExportTraceServiceRequest {
        let spans = spans.into_iter().map(Into::into).collect();
        let scope_spans = vec![ScopeSpans { scope: Some(told::scope()), spans, ..ScopeSpans::default() }];
        let resource = Some(self.resource.clone());
        ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans { resource, scope_spans, ..ResourceSpans::default() }],
        }
    }
}
