//! What a command writes, from its log: whole, in pages, or followed as it comes. Numbers are those of the log, so
//! that any reader can come back, also after the end and to another process.

use std::io;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinfold_api::{Output, OutputEvent, OutputPage};
use pinfold_engine::{WaitError, Waited};
use pinfold_keeper::log::{Entry, Gap, Piece, Reader, Stream};
use pinfold_lifecycle::{ExecutionId, Outcome, SandboxId, Timestamp};
use pinfold_store::StoredExecution;
use tokio::sync::mpsc;

use super::archived::bytes_of;
use super::executions::told;
use super::words::moment;
use super::{FAR, Failure, Service};

/// Events that wait for a slow reader. More wait in the log.
pub(super) const AHEAD: usize = 64;
/// Of output, in one page.
const PAGE_BYTES: usize = 1 << 20;

/// Why a stream has no more events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowEnd {
    /// The execution's end was told.
    Told,
    ReaderGone,
    Failed,
}

impl Service {
    pub(super) fn output_of(&self, sandbox: SandboxId, execution: ExecutionId) -> Reader {
        self.host.provider.output_of(sandbox, execution)
    }

    /// What is there now, after a number.
    pub async fn output(&self, id: ExecutionId, after: u64) -> Result<OutputPage, Failure> {
        let stored = self.stored_execution(id).await?;
        let page = self.page(&stored, after)?;
        // What was moved while it was read is read again, whole.
        match stored.execution.outcome() {
            Some(outcome) if !self.is_in_its_files(stored.sandbox)? => {
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
                // The end was known before all was read, so nothing comes in between.
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

    /// Follows it to its end, or as long as somebody reads.
    pub async fn follow(
        self: &Arc<Self>,
        id: ExecutionId,
        after: u64,
    ) -> Result<mpsc::Receiver<OutputEvent>, Failure> {
        let sandbox = self.stored_execution(id).await?.sandbox;
        let (sender, receiver) = mpsc::channel(AHEAD);
        let service = self.clone();
        tokio::spawn(async move { service.pump(sandbox, id, after, &sender).await });
        Ok(receiver)
    }

    pub(super) async fn pump(
        &self,
        sandbox: SandboxId,
        id: ExecutionId,
        after: u64,
        reader: &mpsc::Sender<OutputEvent>,
    ) -> FollowEnd {
        let mut events = Events::after(self.output_of(sandbox, id), after);
        let mut ended = std::pin::pin!(self.host.engine.wait_execution(sandbox, id, FAR));
        let mut news = self.news_of(sandbox);
        let mut outcome: Option<Result<Waited<Outcome>, WaitError>> = None;
        loop {
            news.catch_up();
            match events.pass_on(reader).await {
                Ok(()) => {}
                Err(PassOnError::ReaderGone) => return FollowEnd::ReaderGone,
                Err(PassOnError::Log(error)) => return events.give_up(reader, &error.to_string()).await,
            }
            match outcome {
                // The end was known before all was read, so nothing comes in between.
                Some(Ok(Waited::Met(outcome))) => {
                    if let Err(failure) = self.pass_on_archived(sandbox, id, &mut events, reader).await {
                        return events.give_up(reader, &failure.detail.message).await;
                    }
                    if let Some(event) = exit(id, &outcome, events.last, after) {
                        // Who is gone does not need it.
                        let _ = reader.send(event).await;
                    }
                    return FollowEnd::Told;
                }
                Some(Ok(Waited::DeadlinePassed)) | None => {}
                Some(Err(error)) => return events.give_up(reader, &error.to_string()).await,
            }
            outcome = tokio::select! {
                biased;
                () = reader.closed() => return FollowEnd::ReaderGone,
                () = self.closing() => {
                    return events.give_up(reader, "the server is being stopped; come back and read on").await;
                }
                outcome = &mut ended => Some(outcome),
                () = news.come() => None,
            };
        }
    }
}

impl Service {
    /// The rest of what was moved before its files were read to their end.
    async fn pass_on_archived(
        &self,
        sandbox: SandboxId,
        id: ExecutionId,
        events: &mut Events,
        reader: &mpsc::Sender<OutputEvent>,
    ) -> Result<(), Failure> {
        if self.is_in_its_files(sandbox)? {
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

enum PassOnError {
    ReaderGone,
    Log(io::Error),
}

/// The events of one log after a number.
struct Events {
    log: Reader,
    after: u64,
    /// The last number that is in the log, as far as it was read.
    last: u64,
}

impl Events {
    fn after(log: Reader, after: u64) -> Self {
        Self { log, after, last: 0 }
    }

    /// With the number of bytes in it.
    fn next(&mut self) -> io::Result<Option<(OutputEvent, usize)>> {
        while let Some(entry) = self.log.next()? {
            match entry {
                Entry::Piece(piece) => {
                    self.last = piece.seq;
                    if piece.seq > self.after {
                        let length = piece.bytes.len();
                        return Ok(Some((of_piece(piece), length)));
                    }
                }
                Entry::Gap(Gap { from_seq, to_seq, bytes }) => {
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

    async fn pass_on(&mut self, reader: &mpsc::Sender<OutputEvent>) -> Result<(), PassOnError> {
        while let Some((event, _)) = self.next().map_err(PassOnError::Log)? {
            reader.send(event).await.map_err(|_| PassOnError::ReaderGone)?;
        }
        Ok(())
    }

    /// The number is that of the last event, so that reading on after it misses nothing.
    async fn give_up(&self, reader: &mpsc::Sender<OutputEvent>, why: &str) -> FollowEnd {
        let seq = self.last.max(self.after);
        let _ = reader.send(OutputEvent::Error { seq, message: why.to_owned() }).await;
        FollowEnd::Failed
    }
}

/// The end comes after the last that is in the log, always with the same number. None: it was read before.
fn exit(id: ExecutionId, outcome: &Outcome, last: u64, after: u64) -> Option<OutputEvent> {
    let seq = last + 1;
    let told = told(outcome);
    (seq > after).then(|| OutputEvent::Exit {
        seq,
        execution_id: id.to_string(),
        state: told.state,
        exit_code: told.exit_code,
        cause: told.cause,
        detail: told.detail,
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

pub(super) fn of_piece(piece: Piece) -> OutputEvent {
    let Piece { seq, at_ms, stream, bytes } = piece;
    let at = moment(Timestamp(at_ms));
    let (text, base64) = text_or_base64(bytes);
    match stream {
        Stream::Stdout => OutputEvent::Stdout { seq, at, text, base64 },
        Stream::Stderr => OutputEvent::Stderr { seq, at, text, base64 },
    }
}

fn text_or_base64(bytes: Vec<u8>) -> (Option<String>, Option<String>) {
    match String::from_utf8(bytes) {
        Ok(text) => (Some(text), None),
        Err(error) => (None, Some(STANDARD.encode(error.as_bytes()))),
    }
}

/// All that is kept of what a command wrote.
#[derive(Default)]
pub(super) struct Transcript {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    lost_bytes: u64,
}

impl Transcript {
    pub(super) fn of(mut log: Reader) -> io::Result<Self> {
        let mut all = Self::default();
        while let Some(entry) = log.next()? {
            match entry {
                Entry::Piece(Piece { stream: Stream::Stdout, bytes, .. }) => all.stdout.extend(bytes),
                Entry::Piece(Piece { stream: Stream::Stderr, bytes, .. }) => all.stderr.extend(bytes),
                Entry::Gap(gap) => all.lost_bytes += gap.bytes,
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
