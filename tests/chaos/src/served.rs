//! The server as it is, behind gates: it can be told to die at a named point, its clock to jump, its store to be slow,
//! and one of its guards can be left out to see whether that is noticed. It obeys lines on its standard input.

pub(crate) mod gates;
mod jumping;
mod provider;
pub(crate) mod settings;
mod slowness;
mod store;

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use anyhow::{Context, Result};
use pinfold_engine::OnExit;
use pinfold_images::Unpacker;
use pinfold_linux::NurseryProgram;
use pinfold_logs::Keep;
use pinfold_server::http::{Door, ServerConfig, serve};
use pinfold_server::{Host, HostConfig, ObjectsPlace, Seams, Service};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::node::{NURSERY, runtime};
use gates::{Death, Gates};
use jumping::JumpingClock;
use provider::GatedProvider;
use slowness::Slowness;
use store::GatedStore;

#[derive(clap::Args)]
pub(crate) struct Options {
    data: PathBuf,
    /// Die at that passing of a point, counted from the start, such as `any:7` or `after-commit:2`
    #[arg(long)]
    die: Option<Death>,
    /// Leave out a guard, to see whether it is missed
    #[arg(long, value_enum)]
    without: Option<Guard>,
    /// Make no sandbox ahead of need
    #[arg(long)]
    cold: bool,
}

/// What makes the server safe, and can be left out here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Guard {
    /// A lease is freed when a look has found nothing, and not before.
    Look,
    /// A deadline is a row, and somebody enforces it.
    Deadlines,
}

/// How long sandboxes have to end before the server does.
const STOP_MS: u64 = 30_000;

pub(crate) fn run(options: &Options) -> Result<()> {
    runtime()?.block_on(live(options))
}

async fn live(options: &Options) -> Result<()> {
    let gates = Arc::new(Gates::default());
    if let Some(death) = options.die {
        gates.arm(death);
    }
    let (jump, slowness) = (Arc::default(), Arc::<Slowness>::default());
    obey(gates.clone(), Arc::clone(&jump), slowness.clone());
    let mut asked_to_end = signal(SignalKind::terminate())?;
    let without = options.without;
    let seams = Seams {
        clock: Box::new(move |clock| Arc::new(JumpingClock { inner: clock, jumped_ms: jump })),
        parts: Box::new(move |mut parts| {
            parts.store =
                Arc::new(GatedStore { inner: parts.store, gates: gates.clone(), slowness, without });
            parts.provider = Arc::new(GatedProvider { inner: parts.provider, gates, without });
            parts
        }),
    };
    let service = Service::with(Host::begin_with(config(options)?, seams).await?, settings::rules());
    let service = Arc::new(service);
    service.ensure_first_token().await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    announce(&options.data, &format!("http://{address}"))?;
    let ended = async move {
        asked_to_end.recv().await;
    };
    serve(service.clone(), vec![Door::plain(listener)], &ServerConfig::default(), ended).await?;
    service.shutdown(OnExit::Keep, STOP_MS).await?;
    Ok(())
}

fn config(options: &Options) -> Result<HostConfig> {
    let nursery = NurseryProgram { program: std::env::current_exe()?, arguments: vec![NURSERY.into()] };
    // Nobody imports an image here.
    let unpacker = Unpacker { program: "/nonexistent".into(), arguments: Vec::new() };
    let engine = settings::engine(options.cold);
    let (data, objects) = (options.data.clone(), ObjectsPlace::default());
    let keep = Keep::default();
    let stale_after_ms = keep.logs_ms;
    Ok(HostConfig { data, nursery, unpacker, engine, objects, keep, stale_after_ms })
}

/// As the program does it, as far as whoever started it needs to know.
fn announce(data: &Path, address: &str) -> Result<()> {
    let draft = data.join("server.json.draft");
    let said = serde_json::json!({ "address": address, "pid": std::process::id() });
    std::fs::write(&draft, said.to_string()).context("could not say where the server is")?;
    std::fs::rename(draft, data.join("server.json")).context("could not say where the server is")
}

/// `die any:3`, `jump -5000`, `slow 200`.
fn obey(gates: Arc<Gates>, jump: Arc<AtomicI64>, slowness: Arc<Slowness>) {
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            match line.split_once(' ') {
                Some(("die", death)) => {
                    if let Ok(death) = death.parse() {
                        gates.arm(death);
                    }
                }
                Some(("jump", ms)) => {
                    let ms = ms.parse().unwrap_or(0);
                    jump.fetch_add(ms, Ordering::Relaxed);
                }
                Some(("slow", ms)) => slowness.set(ms.parse().unwrap_or(0)),
                _ => {}
            }
            println!("obeyed");
        }
    });
}
