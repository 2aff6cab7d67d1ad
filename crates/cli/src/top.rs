//! `pinfold top`: a live screen of sandboxes and their resource usage, with keys to read logs and stop sandboxes.

mod draw;
mod keys;
mod log;
mod screen;
mod source;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use ratatui::DefaultTerminal;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use self::draw::{STATUS, TITLES, cells, draw};
use self::keys::keys;
use self::log::Log;
use self::screen::{Action, Screen, Update};
use self::source::Source;
use crate::backend::Backend;
use crate::colour::StatusColour;
use crate::failure::Failure;
use crate::follow::termination_signal;
use crate::table::format_table;
use crate::{GlobalOptions, json_output};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Print one frame as a table and exit
    #[arg(long)]
    once: bool,
}

/// Interval between refreshes.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);
/// Updates buffered until drawn.
const CHANNEL_CAPACITY: usize = 16;

pub(crate) async fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<ExitCode> {
    let once = options.once || global.json;
    let has_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if !once && !has_terminal {
        let why = "a live screen needs a terminal; --once prints one frame".to_owned();
        return Err(Failure::BadField { field: "top", why }.into());
    }
    let backend = Arc::new(Backend::open(global).await?);
    let shown = if once { print_once(global, backend.as_ref()).await } else { watch(backend.clone()).await };
    backend.close().await?;
    shown.map(|()| ExitCode::SUCCESS)
}

async fn print_once(global: &GlobalOptions, source: &dyn Source) -> anyhow::Result<()> {
    let rows = source.sandboxes().await?;
    if global.json {
        return json_output::print(&rows);
    }
    let titles = TITLES.map(str::to_owned).to_vec();
    let shown = rows.iter().map(|row| {
        let mut cells = cells(row);
        cells[STATUS] = StatusColour::from(row.status).paint(&cells[STATUS]);
        cells.to_vec()
    });
    anstream::print!("{}", format_table(&std::iter::once(titles).chain(shown).collect::<Vec<_>>()));
    Ok(())
}

async fn watch(source: Arc<dyn Source>) -> anyhow::Result<()> {
    // From here on signals must not end this program before the terminal is restored.
    let ended = termination_signal(true)?;
    let mut terminal = RawScreen::enter().context("could not set up the terminal")?;
    tokio::select! {
        shown = show(source, &mut terminal.0) => shown,
        () = ended => Ok(()),
    }
}

/// The terminal in raw mode. Dropping it restores the terminal; a panic restores it before the message is printed.
struct RawScreen(DefaultTerminal);

impl RawScreen {
    fn enter() -> std::io::Result<Self> {
        ratatui::try_init().map(Self)
    }
}

impl Drop for RawScreen {
    fn drop(&mut self) {
        // Fails only if the terminal is gone.
        let _ = ratatui::try_restore();
    }
}

/// Draws and handles keys. Refreshes run in other tasks, so that keys are handled at once.
async fn show(source: Arc<dyn Source>, terminal: &mut DefaultTerminal) -> anyhow::Result<()> {
    let (updates_tx, mut updates) = mpsc::channel(CHANNEL_CAPACITY);
    let mut keys = keys();
    let mut tasks = JoinSet::new();
    tasks.spawn(refresh_loop(source.clone(), updates_tx.clone()));
    let mut reading: Option<AbortHandle> = None;
    let mut screen = Screen::default();
    loop {
        terminal.draw(|frame| draw(frame, &screen)).context("could not draw on the terminal")?;
        tokio::select! {
            Some(update) = updates.recv() => screen.apply(update),
            pressed = keys.recv() => {
                let Some(pressed) = pressed else { return Ok(()) };
                match screen.press(pressed) {
                    Action::None => {}
                    Action::Quit => return Ok(()),
                    Action::Stop(id) => {
                        tasks.spawn(stop(source.clone(), id, updates_tx.clone()));
                    }
                    Action::OpenLog(id) => {
                        reading = Some(tasks.spawn(read_log(source.clone(), id, updates_tx.clone())));
                    }
                    Action::CloseLog => reading.take().iter().for_each(AbortHandle::abort),
                }
            }
        }
    }
}

async fn refresh_loop(source: Arc<dyn Source>, updates_tx: mpsc::Sender<Update>) {
    loop {
        let update = match source.sandboxes().await {
            Ok(rows) => Update::Sandboxes(rows),
            Err(error) => Update::Error(format!("{error:#}")),
        };
        if updates_tx.send(update).await.is_err() {
            return;
        }
        tokio::time::sleep(REFRESH_INTERVAL).await;
    }
}

async fn stop(source: Arc<dyn Source>, id: String, updates_tx: mpsc::Sender<Update>) {
    let update = match source.stop(&id).await {
        Ok(message) => Update::Message(message),
        Err(error) => Update::Error(format!("{error:#}")),
    };
    // An error means that the screen is closed.
    let _ = updates_tx.send(update).await;
}

async fn read_log(source: Arc<dyn Source>, id: String, updates_tx: mpsc::Sender<Update>) {
    let mut log = Log::default();
    loop {
        let update = match source.read_more(&id, &mut log).await {
            Ok(()) => Update::Log { id: id.clone(), lines: log.lines() },
            Err(error) => Update::Error(format!("{error:#}")),
        };
        if updates_tx.send(update).await.is_err() {
            return;
        }
        tokio::time::sleep(REFRESH_INTERVAL).await;
    }
}
