//! What a command inside reads from: what is piped or typed here, and the size of the terminal it is typed into.

mod raw;

use std::convert::Infallible;
use std::io::{ErrorKind, IsTerminal, Read};
use std::time::Duration;

use anyhow::Context;
use pinfold_api::{ErrorCode, ExecRequest, StdinAnswer, StdinRequest, TerminalSize};
use rustix::termios::{Winsize, tcgetwinsize};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::console::raw::RawTerminal;
use crate::documents::base64;
use crate::failure::Failure;
use crate::plane::Plane;

#[derive(clap::Args)]
pub(crate) struct ConsoleOptions {
    /// Pass on to the command what comes in here
    #[arg(short, long)]
    interactive: bool,
    /// Give the command a terminal as large as the one here
    #[arg(short, long)]
    pub(crate) tty: bool,
}

/// How soon what was not taken is tried again.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// What is read here at a time.
const PIECE: usize = 64 * 1024;

impl ConsoleOptions {
    pub(crate) fn terminal() -> Self {
        Self { interactive: true, tty: true }
    }

    pub(crate) fn check(&self, json: bool) -> Result<(), Failure> {
        let bad = |why: &str| Err(Failure::BadField { field: "tty", why: why.to_owned() });
        match self.tty {
            true if json => {
                bad("what is written to a terminal cannot be told in a document; leave out --json")
            }
            true if !std::io::stdin().is_terminal() => {
                bad("standard input is no terminal; for a pipe or a file use -i alone")
            }
            true | false => Ok(()),
        }
    }

    pub(crate) fn furnish(&self, request: ExecRequest) -> ExecRequest {
        let tty_size = self.tty.then(size);
        ExecRequest { interactive: self.interactive, tty: self.tty, tty_size, ..request }
    }

    /// Serves it until it is dropped, and the terminal here is as it was before.
    pub(crate) async fn serve(&self, plane: &Plane, execution: &str) -> anyhow::Result<Infallible> {
        let line = Line { plane, execution };
        let _raw = if self.tty {
            // Only then: as long as it does not run, what is typed here is for this program.
            line.wait_for_terminal().await;
            self.interactive.then(RawTerminal::enter).transpose().context("could not set up the terminal")?
        } else {
            None
        };
        tokio::join!(line.serve(self.interactive), follow_size(&line, self.tty)?);
        std::future::pending().await
    }
}

fn follow_size<'a>(line: &'a Line<'_>, is_wanted: bool) -> anyhow::Result<impl Future<Output = ()> + 'a> {
    let mut changed = signal(SignalKind::window_change()).context("could not wait for signals")?;
    Ok(async move {
        while is_wanted && changed.recv().await.is_some() {
            // Who has no terminal any more has ended.
            let _ = line.plane.resize(line.execution, size()).await;
        }
    })
}

/// Of the terminal here, or what is usual where that does not know either.
fn size() -> TerminalSize {
    match tcgetwinsize(std::io::stdin()) {
        Ok(Winsize { ws_col: columns @ 1.., ws_row: rows @ 1.., .. }) => TerminalSize { columns, rows },
        Ok(_) | Err(_) => TerminalSize { columns: 80, rows: 24 },
    }
}

/// By a thread that nobody waits for: it may hang in a read when the command has ended.
pub(crate) fn read_here() -> mpsc::Receiver<Vec<u8>> {
    let (pieces, taken) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut piece = vec![0; PIECE];
        loop {
            match std::io::stdin().read(&mut piece) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return,
                Ok(read) if pieces.blocking_send(piece[..read].to_vec()).is_err() => return,
                Ok(_) => {}
            }
        }
    });
    taken
}

/// The way into one execution.
struct Line<'a> {
    plane: &'a Plane,
    execution: &'a str,
}

impl Line<'_> {
    async fn wait_for_terminal(&self) {
        let mut pause = FIRST_PAUSE;
        while let Err(error) = self.plane.resize(self.execution, size()).await {
            match error.code() {
                None | Some(ErrorCode::Unavailable | ErrorCode::TimedOut) => rest(&mut pause).await,
                // It has ended already, and this is given up with it.
                Some(_) => return,
            }
        }
    }

    async fn serve(&self, is_wanted: bool) {
        if is_wanted {
            self.feed(read_here()).await;
        }
    }

    /// All of it in its order, and then its end; or as much as is read.
    async fn feed(&self, mut pieces: mpsc::Receiver<Vec<u8>>) {
        let mut at = 0;
        while let Some(piece) = pieces.recv().await {
            match self.feed_piece(at, &piece, false).await {
                Some(accepted) => at = accepted,
                None => return,
            }
        }
        self.feed_piece(at, &[], true).await;
    }

    /// How much is accepted when all of it is. None: nothing more is read.
    async fn feed_piece(&self, mut at: u64, piece: &[u8], close: bool) -> Option<u64> {
        let end = at + piece.len() as u64;
        let mut pause = FIRST_PAUSE;
        loop {
            let left = usize::try_from(end - at).unwrap_or(0);
            let bytes = base64(&piece[piece.len() - left..]);
            let request = StdinRequest { text: None, base64: Some(bytes), at: Some(at), close };
            match self.plane.feed(self.execution, &request).await {
                Ok(StdinAnswer { closed: true, .. }) => return None,
                Ok(StdinAnswer { accepted, .. }) if accepted == end && !close => return Some(end),
                Ok(StdinAnswer { accepted, .. }) if accepted > at && accepted <= end => {
                    at = accepted;
                    pause = FIRST_PAUSE;
                }
                // It does not run yet, or has no room; or it has ended, and this is given up with it.
                Ok(_) | Err(_) => rest(&mut pause).await,
            }
        }
    }
}

async fn rest(pause: &mut Duration) {
    tokio::time::sleep(*pause).await;
    *pause = (*pause * 2).min(LONGEST_PAUSE);
}
