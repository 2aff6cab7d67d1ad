//! Output of executions whose log was archived to the object store, as the same events with the same sequence
//! numbers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinfold_api::OutputEvent;
use pinfold_lifecycle::{ExecutionId, SandboxId};
use pinfold_logs::{Cursor, EntryContent, Gap, LogEntry, PageLimit, Source};
use pinfold_provider::{OutputChunk, OutputStream};

use super::output::{Transcript, of_piece};
use super::{Failure, Service};

/// The archived output events of one execution, in order.
#[derive(Default)]
pub(super) struct ArchivedOutput {
    pub(super) events: Vec<OutputEvent>,
    /// The highest sequence number in the archive.
    pub(super) last: u64,
}

impl Service {
    /// Whether output is still in local files. It is until the sandbox is proven gone.
    pub(super) fn output_is_local(&self, sandbox: SandboxId) -> Result<bool, Failure> {
        Ok(self.host.logs.is_here(sandbox)?)
    }

    pub(super) async fn archived(
        &self,
        sandbox: SandboxId,
        execution: ExecutionId,
        after: u64,
    ) -> Result<ArchivedOutput, Failure> {
        let (mut found, mut cursor) = (ArchivedOutput::default(), Cursor::default());
        loop {
            let page = self.host.logs.read(sandbox, &cursor, PageLimit::default()).await?;
            for entry in page.entries.into_iter().filter(|entry| entry.execution == Some(execution)) {
                found.add_entry(entry, after);
            }
            if page.finished || !page.more {
                return Ok(found);
            }
            cursor = page.next;
        }
    }

    /// The whole stored output of an execution, local or archived.
    pub(super) async fn transcript(
        &self,
        sandbox: SandboxId,
        execution: ExecutionId,
    ) -> Result<Transcript, Failure> {
        let read = Transcript::of(self.output_of(sandbox, execution));
        // If the log was archived during the read, read the archive instead.
        if self.output_is_local(sandbox)? {
            return read.map_err(Failure::internal);
        }
        let archived = self.archived(sandbox, execution, 0).await?;
        Ok(Transcript::of_events(archived.events))
    }
}

impl ArchivedOutput {
    fn add_entry(&mut self, entry: LogEntry, after: u64) {
        let Some(seq) = entry.number() else { return };
        let from_seq = self.last + 1;
        self.last = self.last.max(seq);
        if seq <= after {
            return;
        }
        let stream = match entry.source {
            Source::Stdout => OutputStream::Stdout,
            Source::Stderr => OutputStream::Stderr,
            Source::Control => {
                if let EntryContent::Gap(Gap { bytes, .. }) = entry.content {
                    let from_seq = from_seq.max(after + 1);
                    self.events.push(OutputEvent::Gap { seq, from_seq, bytes: bytes.unwrap_or(0) });
                }
                return;
            }
        };
        let bytes = match entry.content {
            EntryContent::Text(text) => text.into_bytes(),
            EntryContent::Bytes(bytes) => bytes,
            EntryContent::Gap(_) => return,
        };
        self.events.push(of_piece(OutputChunk { seq, at_ms: entry.at.0, stream, bytes }));
    }
}

/// The bytes of an output event.
pub(super) fn bytes_of(text: Option<String>, base64: Option<String>) -> Vec<u8> {
    let decoded = base64.and_then(|text| STANDARD.decode(text).ok());
    text.map(String::into_bytes).or(decoded).unwrap_or_default()
}
