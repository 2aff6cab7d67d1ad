//! The real server with failpoints: it can be told to crash at a named point, to jump its clock or slow its store,
//! and one of its safety guards can be left out to see whether the checks notice. It takes commands on standard
//! input.

pub(crate) mod failpoints;
mod jumping_clock;
mod latency;
mod provider;
pub(crate) mod settings;
mod store;

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use anyhow::{Context, Result};
use pinfold_engine::OnExit;
use pinfold_host::{Programs, TestHooks, start_host_with};
use pinfold_http::{Endpoint, ServerConfig, serve};
use pinfold_images::Unpacker;
use pinfold_linux::SpawnerProgram;
use pinfold_logs::RetentionPeriods;
use pinfold_service::{HostConfig, ObjectStoreConfig, Service};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::node::{SPAWNER, runtime};
use failpoints::{CrashAt, Failpoints};
use jumping_clock::JumpingClock;
use latency::InjectedLatency;
use provider::FailpointProvider;
use store::FailpointStore;

#[derive(clap::Args)]
pub(crate) struct Options {
    data: PathBuf,
    /// Crash at the n-th hit of a failpoint, counted from the start, such as `any:7` or `after-commit:2`
    #[arg(long)]
    crash_at: Option<CrashAt>,
    /// Leave out a guard, to see whether the checks notice
    #[arg(long, value_enum)]
    without: Option<Guard>,
    /// Keep no warm pool
    #[arg(long)]
    no_pool: bool,
}

/// Safety guards that can be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Guard {
    /// A lease is freed only after an observation has found nothing.
    Observation,
    /// Due deadlines are enforced.
    Deadlines,
}

/// How long sandboxes may take to end before the server exits.
const STOP_MS: u64 = 30_000;

pub(crate) fn run(options: &Options) -> Result<()> {
    runtime()?.block_on(serve_until_terminated(options))
}

async fn serve_until_terminated(options: &Options) -> Result<()> {
    let failpoints = Arc::new(Failpoints::default());
    if let Some(crash_at) = options.crash_at {
        failpoints.arm(crash_at);
    }
    let (clock_offset_ms, latency) = (Arc::default(), Arc::<InjectedLatency>::default());
    handle_commands(failpoints.clone(), Arc::clone(&clock_offset_ms), latency.clone());
    let mut terminated = signal(SignalKind::terminate())?;
    let without = options.without;
    let seams = TestHooks {
        clock: Box::new(move |clock| Arc::new(JumpingClock { inner: clock, jumped_ms: clock_offset_ms })),
        parts: Box::new(move |mut parts| {
            parts.store = Arc::new(FailpointStore {
                inner: parts.store,
                failpoints: failpoints.clone(),
                latency,
                without,
            });
            parts.provider = Arc::new(FailpointProvider { inner: parts.provider, failpoints, without });
            parts
        }),
    };
    let service =
        Service::with(start_host_with(config(options), programs()?, seams).await?, settings::rules());
    let service = Arc::new(service);
    service.ensure_first_token().await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    announce(&options.data, &format!("http://{address}"))?;
    let ended = async move {
        terminated.recv().await;
    };
    serve(service.clone(), vec![Endpoint::plain(listener)], &ServerConfig::default(), ended).await?;
    service.shutdown(OnExit::Keep, STOP_MS).await?;
    Ok(())
}

fn programs() -> Result<Programs> {
    let spawner = SpawnerProgram { program: std::env::current_exe()?, arguments: vec![SPAWNER.into()] };
    // No test imports an image.
    let unpacker = Unpacker { program: "/nonexistent".into(), arguments: Vec::new() };
    Ok(Programs { spawner, unpacker })
}

fn config(options: &Options) -> HostConfig {
    let engine = settings::engine(options.no_pool);
    let (data, objects) = (options.data.clone(), ObjectStoreConfig::default());
    let keep = RetentionPeriods::default();
    let stale_after_ms = keep.logs_ms;
    HostConfig { data, engine, objects, keep, stale_after_ms }
}

/// Writes `server.json` as the `pinfold` program does.
fn announce(data: &Path, address: &str) -> Result<()> {
    let draft = data.join("server.json.draft");
    let content = serde_json::json!({ "address": address, "pid": std::process::id() });
    std::fs::write(&draft, content.to_string()).context("could not write `server.json`")?;
    std::fs::rename(draft, data.join("server.json")).context("could not write `server.json`")
}

/// Handles `crash any:3`, `jump -5000` and `slow 200`.
fn handle_commands(
    failpoints: Arc<Failpoints>,
    clock_offset_ms: Arc<AtomicI64>,
    latency: Arc<InjectedLatency>,
) {
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            match line.split_once(' ') {
                Some(("crash", crash_at)) => {
                    if let Ok(crash_at) = crash_at.parse() {
                        failpoints.arm(crash_at);
                    }
                }
                Some(("jump", ms)) => {
                    let ms = ms.parse().unwrap_or(0);
                    clock_offset_ms.fetch_add(ms, Ordering::Relaxed);
                }
                Some(("slow", ms)) => latency.set(ms.parse().unwrap_or(0)),
                _ => {}
            }
            println!("done");
        }
    });
}
