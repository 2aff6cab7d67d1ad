//! `pinfold top`: sandboxes on a live screen, what they use, and keys to read their logs and to stop them.

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
use self::screen::{News, Screen, Wish};
use self::source::Source;
use crate::colour::Mood;
use crate::failure::Failure;
use crate::following::asked_to_end;
use crate::plane::Plane;
use crate::table::lay_out;
use crate::{Place, documents};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Print what the screen would show now, once, as a table
    #[arg(long)]
    once: bool,
}

/// Between two looks.
const REFRESH: Duration = Duration::from_secs(1);
/// News that wait to be drawn.
const AHEAD: usize = 16;

pub(crate) async fn run(place: &Place, options: &Options) -> anyhow::Result<ExitCode> {
    let once = options.once || place.json;
    let has_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if !once && !has_terminal {
        let why = "a live screen needs a terminal; --once prints one frame".to_owned();
        return Err(Failure::BadField { field: "top", why }.into());
    }
    let plane = Arc::new(Plane::open(place).await?);
    let shown = if once { print_once(place, plane.as_ref()).await } else { watch(plane.clone()).await };
    plane.close().await?;
    shown.map(|()| ExitCode::SUCCESS)
}

async fn print_once(place: &Place, source: &dyn Source) -> anyhow::Result<()> {
    let rows = source.sandboxes().await?;
    if place.json {
        return documents::print(&rows);
    }
    let titles = TITLES.map(str::to_owned).to_vec();
    let shown = rows.iter().map(|row| {
        let mut cells = cells(row);
        cells[STATUS] = Mood::from(row.status).paint(&cells[STATUS]);
        cells.to_vec()
    });
    anstream::print!("{}", lay_out(&std::iter::once(titles).chain(shown).collect::<Vec<_>>()));
    Ok(())
}

async fn watch(source: Arc<dyn Source>) -> anyhow::Result<()> {
    // From here on no signal ends this program before the terminal is as it was.
    let ended = asked_to_end(true)?;
    let mut terminal = Restored::enter().context("could not set up the terminal")?;
    tokio::select! {
        shown = show(source, &mut terminal.0) => shown,
        () = ended => Ok(()),
    }
}

/// The terminal is as it was before when this is dropped. A panic restores it before it is told.
struct Restored(DefaultTerminal);

impl Restored {
    fn enter() -> std::io::Result<Self> {
        ratatui::try_init().map(Self)
    }
}

impl Drop for Restored {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing back.
        let _ = ratatui::try_restore();
    }
}

/// Looks are taken beside it, so that keys are answered at once.
async fn show(source: Arc<dyn Source>, terminal: &mut DefaultTerminal) -> anyhow::Result<()> {
    let (tell, mut news) = mpsc::channel(AHEAD);
    let mut keys = keys();
    let mut errands = JoinSet::new();
    errands.spawn(look_again_and_again(source.clone(), tell.clone()));
    let mut reading: Option<AbortHandle> = None;
    let mut screen = Screen::default();
    loop {
        terminal.draw(|frame| draw(frame, &screen)).context("could not draw on the terminal")?;
        tokio::select! {
            Some(came) = news.recv() => screen.learn(came),
            pressed = keys.recv() => {
                let Some(pressed) = pressed else { return Ok(()) };
                match screen.press(pressed) {
                    Wish::Nothing => {}
                    Wish::Quit => return Ok(()),
                    Wish::Stop(id) => {
                        errands.spawn(stop(source.clone(), id, tell.clone()));
                    }
                    Wish::OpenLog(id) => {
                        reading = Some(errands.spawn(read_log(source.clone(), id, tell.clone())));
                    }
                    Wish::CloseLog => reading.take().iter().for_each(AbortHandle::abort),
                }
            }
        }
    }
}

async fn look_again_and_again(source: Arc<dyn Source>, tell: mpsc::Sender<News>) {
    loop {
        let came = match source.sandboxes().await {
            Ok(rows) => News::Sandboxes(rows),
            Err(error) => News::Trouble(format!("{error:#}")),
        };
        if tell.send(came).await.is_err() {
            return;
        }
        tokio::time::sleep(REFRESH).await;
    }
}

async fn stop(source: Arc<dyn Source>, id: String, tell: mpsc::Sender<News>) {
    let came = match source.stop(&id).await {
        Ok(told) => News::Told(told),
        Err(error) => News::Trouble(format!("{error:#}")),
    };
    // Nobody is there to hear it when the screen is gone.
    let _ = tell.send(came).await;
}

async fn read_log(source: Arc<dyn Source>, id: String, tell: mpsc::Sender<News>) {
    let mut log = Log::default();
    loop {
        let came = match source.read_on(&id, &mut log).await {
            Ok(()) => News::Log { id: id.clone(), lines: log.lines() },
            Err(error) => News::Trouble(format!("{error:#}")),
        };
        if tell.send(came).await.is_err() {
            return;
        }
        tokio::time::sleep(REFRESH).await;
    }
}
