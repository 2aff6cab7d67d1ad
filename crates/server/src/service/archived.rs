//! Output whose log has moved to the object store, as the events it was before, under the same numbers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinfold_api::OutputEvent;
use pinfold_keeper::log::{Piece, Stream};
use pinfold_lifecycle::{ExecutionId, SandboxId};
use pinfold_logs::{Content, Cursor, Entry, Gap, Limit, Source};

use super::following::{Transcript, of_piece};
use super::{Failure, Service};

/// Of one execution, in order.
#[derive(Default)]
pub(super) struct Archived {
    pub(super) events: Vec<OutputEvent>,
    /// The last number there is.
    pub(super) last: u64,
}

impl Service {
    /// Whether what executions write is still in their own files. It is, as long as the sandbox is not gone.
    pub(super) fn is_in_its_files(&self, sandbox: SandboxId) -> Result<bool, Failure> {
        Ok(self.host.logs.is_here(sandbox)?)
    }

    pub(super) async fn archived(
        &self,
        sandbox: SandboxId,
        execution: ExecutionId,
        after: u64,
    ) -> Result<Archived, Failure> {
        let (mut found, mut cursor) = (Archived::default(), Cursor::default());
        loop {
            let page = self.host.logs.read(sandbox, &cursor, Limit::default()).await?;
            for entry in page.entries.into_iter().filter(|entry| entry.execution == Some(execution)) {
                found.take(entry, after);
            }
            if page.over || !page.more {
                return Ok(found);
            }
            cursor = page.next;
        }
    }

    /// All that is kept of what a command wrote, wherever it lies.
    pub(super) async fn transcript(
        &self,
        sandbox: SandboxId,
        execution: ExecutionId,
    ) -> Result<Transcript, Failure> {
        let read = Transcript::of(self.output_of(sandbox, execution));
        // What was moved while it was read is read again, whole.
        if self.is_in_its_files(sandbox)? {
            return read.map_err(Failure::internal);
        }
        let archived = self.archived(sandbox, execution, 0).await?;
        Ok(Transcript::of_events(archived.events))
    }
}

impl Archived {
    fn take(&mut self, entry: Entry, after: u64) {
        let Some(seq) = entry.number() else { return };
        let from_seq = self.last + 1;
        self.last = self.last.max(seq);
        if seq <= after {
            return;
        }
        let stream = match entry.source {
            Source::Stdout => Stream::Stdout,
            Source::Stderr => Stream::Stderr,
            Source::Control => {
                if let Content::Gap(Gap { bytes, .. }) = entry.content {
                    let from_seq = from_seq.max(after + 1);
                    self.events.push(OutputEvent::Gap { seq, from_seq, bytes: bytes.unwrap_or(0) });
                }
                return;
            }
        };
        let bytes = match entry.content {
            Content::Text(text) => text.into_bytes(),
            Content::Bytes(bytes) => bytes,
            Content::Gap(_) => return,
        };
        self.events.push(of_piece(Piece { seq, at_ms: entry.at.0, stream, bytes }));
    }
}

/// What an event carries.
pub(super) fn bytes_of(text: Option<String>, base64: Option<String>) -> Vec<u8> {
    let decoded = base64.and_then(|text| STANDARD.decode(text).ok());
    text.map(String::into_bytes).or(decoded).unwrap_or_default()
}
