//! Standard input and terminal size of a command in a sandbox, passed on from this process.

mod raw;

use std::convert::Infallible;
use std::io::{ErrorKind, IsTerminal, Read};

use anyhow::Context;
use pinfold_api::{ErrorCode, ExecRequest, StdinAnswer, StdinRequest, TerminalSize};
use pinfold_backoff::Backoff;
use rustix::termios::{Winsize, tcgetwinsize};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::backend::Backend;
use crate::console::raw::RawTerminal;
use crate::failure::Failure;
use crate::json_output::base64;

#[derive(clap::Args)]
pub(crate) struct ConsoleOptions {
    /// Pass standard input on to the command
    #[arg(short, long)]
    interactive: bool,
    /// Give the command a terminal of the same size as yours
    #[arg(short, long)]
    pub(crate) tty: bool,
}

/// Backoff between attempts to send input that was not accepted.
const INPUT_BACKOFF: Backoff = Backoff::from_ms(1, 50);
/// Bytes read from standard input at a time.
const CHUNK_SIZE: usize = 64 * 1024;

impl ConsoleOptions {
    pub(crate) fn terminal() -> Self {
        Self { interactive: true, tty: true }
    }

    pub(crate) fn check(&self, json: bool) -> Result<(), Failure> {
        let bad = |why: &str| Err(Failure::BadField { field: "tty", why: why.to_owned() });
        match self.tty {
            true if json => bad("terminal output cannot be part of a JSON document; leave out --json"),
            true if !std::io::stdin().is_terminal() => {
                bad("standard input is not a terminal; for a pipe or a file use -i alone")
            }
            true | false => Ok(()),
        }
    }

    pub(crate) fn apply_to(&self, request: ExecRequest) -> ExecRequest {
        let tty_size = self.tty.then(terminal_size);
        let mut request = ExecRequest { interactive: self.interactive, tty: self.tty, tty_size, ..request };
        if let (true, Ok(kind)) = (self.tty, std::env::var("TERM")) {
            // The command draws on the local terminal, so it needs the local terminal's kind.
            request.env.entry("TERM".to_owned()).or_insert(kind);
        }
        request
    }

    /// Forwards input and terminal size until dropped. Dropping it restores the local terminal.
    pub(crate) async fn serve(&self, backend: &Backend, execution: &str) -> anyhow::Result<Infallible> {
        let channel = InputChannel { backend, execution };
        let _raw = if self.tty {
            // Until the command runs, keys such as Ctrl-C are for this program.
            channel.wait_for_terminal().await;
            self.interactive.then(RawTerminal::enter).transpose().context("could not set up the terminal")?
        } else {
            None
        };
        tokio::join!(channel.serve(self.interactive), follow_size(&channel, self.tty)?);
        std::future::pending().await
    }
}

fn follow_size<'a>(
    channel: &'a InputChannel<'_>,
    enabled: bool,
) -> anyhow::Result<impl Future<Output = ()> + 'a> {
    let mut changed = signal(SignalKind::window_change()).context("could not wait for signals")?;
    Ok(async move {
        while enabled && changed.recv().await.is_some() {
            // An error means that the execution has ended.
            let _ = channel.backend.resize(channel.execution, terminal_size()).await;
        }
    })
}

/// The size of the local terminal, or 80x24 if it is unknown.
fn terminal_size() -> TerminalSize {
    match tcgetwinsize(std::io::stdin()) {
        Ok(Winsize { ws_col: columns @ 1.., ws_row: rows @ 1.., .. }) => TerminalSize { columns, rows },
        Ok(_) | Err(_) => TerminalSize { columns: 80, rows: 24 },
    }
}

/// Reads standard input in a detached thread, which may still block in a read after the command has ended.
pub(crate) fn read_stdin() -> mpsc::Receiver<Vec<u8>> {
    let (chunks, taken) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut chunk = vec![0; CHUNK_SIZE];
        loop {
            match std::io::stdin().read(&mut chunk) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return,
                Ok(read) if chunks.blocking_send(chunk[..read].to_vec()).is_err() => return,
                Ok(_) => {}
            }
        }
    });
    taken
}

/// Sends input and terminal sizes to one execution.
struct InputChannel<'a> {
    backend: &'a Backend,
    execution: &'a str,
}

impl InputChannel<'_> {
    async fn wait_for_terminal(&self) {
        let mut backoff = INPUT_BACKOFF;
        while let Err(error) = self.backend.resize(self.execution, terminal_size()).await {
            match error.code() {
                None | Some(ErrorCode::Unavailable | ErrorCode::TimedOut) => {
                    tokio::time::sleep(backoff.next_pause()).await
                }
                // The execution has ended.
                Some(_) => return,
            }
        }
    }

    async fn serve(&self, enabled: bool) {
        if enabled {
            self.send_all(read_stdin()).await;
        }
    }

    /// Sends all chunks in order and then closes the input, or stops early when the execution closes it.
    async fn send_all(&self, mut chunks: mpsc::Receiver<Vec<u8>>) {
        let mut at = 0;
        while let Some(chunk) = chunks.recv().await {
            match self.send_chunk(at, &chunk, false).await {
                Some(accepted) => at = accepted,
                None => return,
            }
        }
        self.send_chunk(at, &[], true).await;
    }

    /// Sends one chunk and returns the new offset. None: the execution reads no more input.
    async fn send_chunk(&self, mut at: u64, chunk: &[u8], close: bool) -> Option<u64> {
        let end = at + chunk.len() as u64;
        let mut backoff = INPUT_BACKOFF;
        loop {
            let left = usize::try_from(end - at).unwrap_or(0);
            let bytes = base64(&chunk[chunk.len() - left..]);
            let request = StdinRequest { text: None, base64: Some(bytes), at: Some(at), close };
            match self.backend.write_stdin(self.execution, &request).await {
                Ok(StdinAnswer { closed: true, .. }) => return None,
                Ok(StdinAnswer { accepted, .. }) if accepted == end && !close => return Some(end),
                Ok(StdinAnswer { accepted, .. }) if accepted > at && accepted <= end => {
                    at = accepted;
                    backoff.reset();
                }
                // The execution has not started, or its buffer is full, or it has ended and this task is dropped soon.
                Ok(_) | Err(_) => tokio::time::sleep(backoff.next_pause()).await,
            }
        }
    }
}
