//! Output of executions: as a whole, in pages, or as a stream. Sequence numbers are the log's, so a reader can
//! continue later and at another server.

use std::io;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinfold_api::{Output, OutputEvent, OutputPage};
use pinfold_engine::{WaitError, WaitOutcome};
use pinfold_lifecycle::{ExecutionId, Outcome, SandboxId, Timestamp};
use pinfold_provider::{OutputChunk, OutputEntry, OutputGap, OutputReader, OutputStream, ReadPosition};
use pinfold_store::StoredExecution;
use tokio::sync::mpsc;

use super::archived_output::bytes_of;
use super::convert::rfc3339;
use super::executions::outcome_view;
use super::{Failure, NO_DEADLINE, Service};

/// Events buffered for a slow reader. The rest stays in the log.
pub(super) const BUFFERED: usize = 64;
/// Bytes of output in one page.
const PAGE_BYTES: usize = 1 << 20;

/// Why an output stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// The exit event was sent.
    Complete,
    ReaderGone,
    Failed,
}

impl Service {
    pub(super) fn output_of(&self, sandbox: SandboxId, execution: ExecutionId) -> Box<dyn OutputReader> {
        self.host.provider.output().reader(sandbox, execution, ReadPosition::default())
    }

    /// One page of output after a sequence number.
    pub async fn output(&self, id: ExecutionId, after: u64) -> Result<OutputPage, Failure> {
        let stored = self.stored_execution(id).await?;
        let page = self.page(&stored, after)?;
        // If the log was archived during the read, read the archive instead.
        match stored.execution.outcome() {
            Some(outcome) if !self.output_is_local(stored.sandbox)? => {
                self.archived_page(&stored, outcome, after).await
            }
            Some(_) | None => Ok(page),
        }
    }

    async fn archived_page(
        &self,
        stored: &StoredExecution,
        outcome: &Outcome,
        after: u64,
    ) -> Result<OutputPage, Failure> {
        let id = stored.execution.id;
        let mut archived = self.archived(stored.sandbox, id, after).await?;
        let mut bytes = 0;
        let fitting = archived.events.iter().take_while(|event| {
            let fits = bytes < PAGE_BYTES;
            bytes += length(event);
            fits
        });
        let fitting = fitting.count();
        let ended = fitting == archived.events.len();
        archived.events.truncate(fitting);
        if ended {
            archived.events.extend(exit(id, outcome, archived.last, after));
        }
        let next = archived.events.last().map_or(after, OutputEvent::seq);
        Ok(OutputPage { execution_id: id.to_string(), events: archived.events, next, ended })
    }

    fn page(&self, stored: &StoredExecution, after: u64) -> Result<OutputPage, Failure> {
        let id = stored.execution.id;
        let mut events = Events::after(self.output_of(stored.sandbox, id), after);
        let mut page =
            OutputPage { execution_id: id.to_string(), events: Vec::new(), next: after, ended: false };
        let mut bytes = 0;
        while bytes < PAGE_BYTES {
            let Some((event, length)) = events.next().map_err(Failure::internal)? else {
                // The outcome was known before the log was read to its end, so no output is missing.
                if let Some(outcome) = stored.execution.outcome() {
                    page.events.extend(exit(id, outcome, events.last, after));
                    page.ended = true;
                }
                break;
            };
            bytes += length;
            page.events.push(event);
        }
        page.next = page.events.last().map_or(after, OutputEvent::seq);
        Ok(page)
    }

    /// Streams the output until the execution ends or the receiver is dropped.
    pub async fn follow(
        self: &Arc<Self>,
        id: ExecutionId,
        after: u64,
    ) -> Result<mpsc::Receiver<OutputEvent>, Failure> {
        let sandbox = self.stored_execution(id).await?.sandbox;
        let (sender, receiver) = mpsc::channel(BUFFERED);
        let service = self.clone();
        tokio::spawn(async move { service.stream_output(sandbox, id, after, &sender).await });
        Ok(receiver)
    }

    pub(super) async fn stream_output(
        &self,
        sandbox: SandboxId,
        id: ExecutionId,
        after: u64,
        reader: &mpsc::Sender<OutputEvent>,
    ) -> StreamEnd {
        let mut events = Events::after(self.output_of(sandbox, id), after);
        let mut ended = std::pin::pin!(self.host.engine.wait_execution(sandbox, id, NO_DEADLINE));
        let mut changes = self.change_feed(sandbox);
        let mut outcome: Option<Result<WaitOutcome<Outcome>, WaitError>> = None;
        loop {
            changes.mark_seen();
            match events.forward(reader).await {
                Ok(()) => {}
                Err(ForwardError::ReaderGone) => return StreamEnd::ReaderGone,
                Err(ForwardError::Log(error)) => {
                    return events.end_with_error(reader, &error.to_string()).await;
                }
            }
            match outcome {
                // The outcome was known before the log was read to its end, so no output is missing.
                Some(Ok(WaitOutcome::Met(outcome))) => {
                    if let Err(failure) = self.forward_archived(sandbox, id, &mut events, reader).await {
                        return events.end_with_error(reader, &failure.detail.message).await;
                    }
                    if let Some(event) = exit(id, &outcome, events.last, after) {
                        // A reader that is gone does not need it.
                        let _ = reader.send(event).await;
                    }
                    return StreamEnd::Complete;
                }
                Some(Ok(WaitOutcome::DeadlinePassed)) | None => {}
                Some(Err(error)) => return events.end_with_error(reader, &error.to_string()).await,
            }
            outcome = tokio::select! {
                biased;
                () = reader.closed() => return StreamEnd::ReaderGone,
                () = self.closing() => {
                    return events.end_with_error(reader, "the server is shutting down; reconnect and continue").await;
                }
                outcome = &mut ended => Some(outcome),
                () = changes.changed() => None,
            };
        }
    }
}

impl Service {
    /// Sends the rest of a log that was archived before its files were read to their end.
    async fn forward_archived(
        &self,
        sandbox: SandboxId,
        id: ExecutionId,
        events: &mut Events,
        reader: &mpsc::Sender<OutputEvent>,
    ) -> Result<(), Failure> {
        if self.output_is_local(sandbox)? {
            return Ok(());
        }
        let archived = self.archived(sandbox, id, events.last.max(events.after)).await?;
        events.last = events.last.max(archived.last);
        for event in archived.events {
            if reader.send(event).await.is_err() {
                break;
            }
        }
        Ok(())
    }
}

enum ForwardError {
    ReaderGone,
    Log(io::Error),
}

/// The events of one log after a sequence number.
struct Events {
    log: Box<dyn OutputReader>,
    after: u64,
    /// The last sequence number read from the log.
    last: u64,
}

impl Events {
    fn after(log: Box<dyn OutputReader>, after: u64) -> Self {
        Self { log, after, last: 0 }
    }

    /// The next event, with its number of bytes.
    fn next(&mut self) -> io::Result<Option<(OutputEvent, usize)>> {
        while let Some(entry) = self.log.next()? {
            match entry {
                OutputEntry::Chunk(piece) => {
                    self.last = piece.seq;
                    if piece.seq > self.after {
                        let length = piece.bytes.len();
                        return Ok(Some((of_piece(piece), length)));
                    }
                }
                OutputEntry::Gap(OutputGap { from_seq, to_seq, bytes }) => {
                    self.last = to_seq;
                    if to_seq > self.after {
                        let from_seq = from_seq.max(self.after + 1);
                        return Ok(Some((OutputEvent::Gap { seq: to_seq, from_seq, bytes }, 0)));
                    }
                }
            }
        }
        Ok(None)
    }

    async fn forward(&mut self, reader: &mpsc::Sender<OutputEvent>) -> Result<(), ForwardError> {
        while let Some((event, _)) = self.next().map_err(ForwardError::Log)? {
            reader.send(event).await.map_err(|_| ForwardError::ReaderGone)?;
        }
        Ok(())
    }

    /// Sends an error event with the last sequence number, so that continuing after it misses nothing.
    async fn end_with_error(&self, reader: &mpsc::Sender<OutputEvent>, why: &str) -> StreamEnd {
        let seq = self.last.max(self.after);
        let _ = reader.send(OutputEvent::Error { seq, message: why.to_owned() }).await;
        StreamEnd::Failed
    }
}

/// The exit event. Its sequence number follows the last one in the log. None: the reader has seen it already.
fn exit(id: ExecutionId, outcome: &Outcome, last: u64, after: u64) -> Option<OutputEvent> {
    let seq = last + 1;
    let view = outcome_view(outcome);
    (seq > after).then(|| OutputEvent::Exit {
        seq,
        execution_id: id.to_string(),
        state: view.state,
        exit_code: view.exit_code,
        cause: view.cause,
        detail: view.detail,
    })
}

fn length(event: &OutputEvent) -> usize {
    match event {
        OutputEvent::Stdout { text, base64, .. } | OutputEvent::Stderr { text, base64, .. } => {
            text.as_ref().or(base64.as_ref()).map_or(0, String::len)
        }
        OutputEvent::Gap { .. } | OutputEvent::Exit { .. } | OutputEvent::Error { .. } => 0,
    }
}

pub(super) fn of_piece(piece: OutputChunk) -> OutputEvent {
    let OutputChunk { seq, at_ms, stream, bytes } = piece;
    let at = rfc3339(Timestamp(at_ms));
    let (text, base64) = text_or_base64(bytes);
    match stream {
        OutputStream::Stdout => OutputEvent::Stdout { seq, at, text, base64 },
        OutputStream::Stderr => OutputEvent::Stderr { seq, at, text, base64 },
    }
}

fn text_or_base64(bytes: Vec<u8>) -> (Option<String>, Option<String>) {
    match String::from_utf8(bytes) {
        Ok(text) => (Some(text), None),
        Err(error) => (None, Some(STANDARD.encode(error.as_bytes()))),
    }
}

/// The whole stored output of an execution.
#[derive(Default)]
pub(super) struct Transcript {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    lost_bytes: u64,
}

impl Transcript {
    pub(super) fn of(mut log: Box<dyn OutputReader>) -> io::Result<Self> {
        let mut all = Self::default();
        while let Some(entry) = log.next()? {
            match entry {
                OutputEntry::Chunk(OutputChunk { stream: OutputStream::Stdout, bytes, .. }) => {
                    all.stdout.extend(bytes)
                }
                OutputEntry::Chunk(OutputChunk { stream: OutputStream::Stderr, bytes, .. }) => {
                    all.stderr.extend(bytes)
                }
                OutputEntry::Gap(gap) => all.lost_bytes += gap.bytes,
            }
        }
        Ok(all)
    }

    pub(super) fn of_events(events: Vec<OutputEvent>) -> Self {
        let mut all = Self::default();
        for event in events {
            match event {
                OutputEvent::Stdout { text, base64, .. } => all.stdout.extend(bytes_of(text, base64)),
                OutputEvent::Stderr { text, base64, .. } => all.stderr.extend(bytes_of(text, base64)),
                OutputEvent::Gap { bytes, .. } => all.lost_bytes += bytes,
                OutputEvent::Exit { .. } | OutputEvent::Error { .. } => {}
            }
        }
        all
    }

    pub(super) fn into_output(self) -> Output {
        let (stdout, stdout_base64) = text_or_base64(self.stdout);
        let (stderr, stderr_base64) = text_or_base64(self.stderr);
        Output { stdout, stdout_base64, stderr, stderr_base64, lost_bytes: self.lost_bytes }
    }
}
