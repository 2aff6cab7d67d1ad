//! Where a command reads from and writes to.

use pinfold_lifecycle::Timestamp;
use serde::{Deserialize, Serialize};

use super::Shared;
use super::run::{Activity, Wait};
use super::syntax::Stream;
use crate::fake::file_tree::Content;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Streams {
    stdin: Source,
    stdout: Sink,
    stderr: Sink,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Source {
    /// The input of the process.
    Process,
    Bytes(Vec<u8>),
    /// A named pipe: no script writes to one.
    Never,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Sink {
    /// The output of the process.
    Process(Stream),
    File(Vec<u8>),
    /// For a substitution or a pipe, by number.
    Capture(usize),
}

/// What a read gives.
pub(super) enum ReadResult {
    Bytes(Vec<u8>),
    End,
    NotYet(Wait),
}

impl Streams {
    pub(super) fn of_process() -> Self {
        Self {
            stdin: Source::Process,
            stdout: Sink::Process(Stream::Stdout),
            stderr: Sink::Process(Stream::Stderr),
        }
    }

    pub(super) fn reading(self, input: Vec<u8>) -> Self {
        Self { stdin: Source::Bytes(input), ..self }
    }

    pub(super) fn captured(self, index: usize) -> Self {
        Self { stdout: Sink::Capture(index), ..self }
    }

    pub(super) fn read_file(
        &mut self,
        (path, name): (Vec<u8>, String),
        shared: &Shared<'_>,
    ) -> Result<(), String> {
        self.stdin = match shared.files.follow(&path).map(|file| &file.content) {
            Ok(Content::Pipe) => Source::Never,
            Ok(Content::Regular(content)) => Source::Bytes(content.clone()),
            Ok(_) | Err(_) => return Err(format!("cannot open {name}: No such file")),
        };
        Ok(())
    }

    pub(super) fn write_file(
        &mut self,
        stream: Stream,
        (path, name): (Vec<u8>, String),
        append: bool,
        now: Timestamp,
        shared: &mut Shared<'_>,
    ) -> Result<(), String> {
        if !append || shared.files.get(&path).is_err() {
            let opened = shared.files.write(path.clone(), None, Vec::new(), now);
            opened.map_err(|error| format!("cannot create {name}: {error}"))?;
        }
        *self.sink_mut(stream) = Sink::File(path);
        Ok(())
    }

    pub(super) fn duplicate(&mut self, stream: Stream, of: Stream) {
        *self.sink_mut(stream) = self.sink(of).clone();
    }

    pub(super) fn sink(&self, stream: Stream) -> &Sink {
        match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        }
    }

    fn sink_mut(&mut self, stream: Stream) -> &mut Sink {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }

    pub(super) fn read(&mut self, shared: &mut Shared<'_>) -> ReadResult {
        match (&mut self.stdin, &mut shared.input) {
            (Source::Bytes(bytes), _) if bytes.is_empty() => ReadResult::End,
            (Source::Bytes(bytes), _) => ReadResult::Bytes(std::mem::take(bytes)),
            (Source::Never, _) => ReadResult::NotYet(Wait::Forever(Activity::Sleeps)),
            (Source::Process, None) => ReadResult::End,
            (Source::Process, Some(input)) if !input.unread.is_empty() => {
                ReadResult::Bytes(std::mem::take(&mut input.unread).into())
            }
            (Source::Process, Some(input)) if input.closed => ReadResult::End,
            (Source::Process, Some(_)) => ReadResult::NotYet(Wait::Input),
        }
    }

    pub(super) fn unread(&mut self, rest: Vec<u8>, shared: &mut Shared<'_>) {
        match (&mut self.stdin, &mut shared.input) {
            (Source::Bytes(bytes), _) => *bytes = rest,
            (Source::Process, Some(input)) => input.unread = rest.into(),
            (Source::Process | Source::Never, _) => {}
        }
    }
}
