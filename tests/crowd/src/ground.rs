//! The server as it is, on a data directory of its own, with the clock in front of it that can be moved. Whoever has
//! begun one ends it: nothing is left then.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use pinfold_alerts::{Alert, Rule, Rules as AlertRules};
use pinfold_client::Client;
use pinfold_engine::{Census, Config, HostCensus, OnExit, Schedule};
use pinfold_images::Unpacker;
use pinfold_lifecycle::{NodeId, SandboxId, Timestamp};
use pinfold_linux::NurseryProgram;
use pinfold_logs::Keep;
use pinfold_provider::Provider;
use pinfold_server::alerts::AlertsConfig;
use pinfold_server::http::{Door, ServerConfig, serve};
use pinfold_server::{Host, HostConfig, ObjectsPlace, Rules, Seams, Service};
use pinfold_store::Store;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::aged::Aged;
use crate::clock::MovedClock;

pub(crate) const MINUTE: u64 = 60_000;
pub(crate) const DAY: u64 = 24 * 60 * MINUTE;
/// No turn of cleanup is taken before that. Older than anything that is stuck may be.
const SETTLE_MS: u64 = 60 * MINUTE;
/// A process that lives and never does what it was asked to.
pub(crate) const SLEEPER: NodeId = NodeId(77);
/// How long sandboxes have to end with their server.
const END_MS: u64 = 60_000;

/// How often alerts are evaluated. A server has no need to hurry; a test has.
#[derive(Debug, Clone, Copy)]
pub struct Pace(pub Duration);

pub struct Ground {
    pub service: Arc<Service>,
    pub clock: Arc<MovedClock>,
    /// When cleanup has its first turn.
    pub first_turn_at: Timestamp,
    pub(crate) broken: Arc<Mutex<BTreeSet<SandboxId>>>,
    data: tempfile::TempDir,
}

/// A server that can be asked. It is not to be dropped before its end.
pub struct Served {
    pub client: Client,
    stop: oneshot::Sender<()>,
    task: JoinHandle<std::io::Result<()>>,
}

impl Ground {
    pub async fn begin(data: tempfile::TempDir, nursery: NurseryProgram, pace: Pace) -> Result<Self> {
        let clock = Arc::new(MovedClock::default());
        let broken = Arc::<Mutex<BTreeSet<SandboxId>>>::default();
        let (own_clock, own_broken, moved) = (clock.clone(), broken.clone(), clock.clone());
        let seams = Seams {
            clock: Box::new(move |real| moved.over(real)),
            parts: Box::new(move |mut parts| {
                parts.provider =
                    Arc::new(Aged { inner: parts.provider, clock: own_clock, broken: own_broken });
                parts
            }),
        };
        let host = Host::begin_with(config(data.path(), nursery)?, seams).await?;
        host.store.beat(HostCensus::take()?.me(SLEEPER), host.clock.now()).await?;
        let first_turn_at = host.cleaner.watches_since();
        let service = Arc::new(Service::with(host, rules(pace)));
        service.ensure_first_token().await?;
        Ok(Self { service, clock, first_turn_at, broken, data })
    }

    /// From now on it can be asked, and looks whether there is anything to alert somebody for.
    pub async fn serve(&self) -> Result<Served> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let token = std::fs::read_to_string(self.data.path().join("admin.token"))?;
        let client = Client::new(&format!("http://{address}"), token.trim())?;
        let (stop, stopped) = oneshot::channel();
        let service = self.service.clone();
        let task = tokio::spawn(async move {
            let doors = vec![Door::plain(listener)];
            serve(service, doors, &ServerConfig::default(), async { drop(stopped.await) }).await
        });
        Ok(Served { client, stop, task })
    }

    pub(crate) fn store_file(&self) -> std::path::PathBuf {
        self.data.path().join("store/pinfold.db")
    }

    /// The sandboxes that have a body, and whether that is whole.
    pub async fn bodies(&self) -> Result<Vec<(SandboxId, bool)>> {
        let found = self.service.host().provider.discover().await?.found;
        Ok(found.into_iter().map(|found| (found.body.sandbox, found.whole)).collect())
    }

    /// Nothing is left, whatever came before.
    pub async fn end(&self) -> Result<()> {
        let left = self.service.shutdown(OnExit::Stop, END_MS).await;
        let host = self.service.host();
        let found = host.provider.discover().await?.found;
        for found in &found {
            host.provider.stop(found.body, 0).await;
        }
        ensure!(self.bodies().await?.is_empty(), "bodies are left");
        match left {
            Ok(left) if left.is_empty() && found.is_empty() => Ok(()),
            Ok(left) => bail!("{left:?} had not ended in time, and {found:?} was there"),
            Err(error) => Err(error.into()),
        }
    }
}

impl Served {
    pub async fn end(self) -> Result<()> {
        drop(self.stop);
        Ok(self.task.await??)
    }
}

/// One layer has a turn, once time is moved, and nobody compares records with bodies meanwhile.
fn config(data: &Path, nursery: NurseryProgram) -> Result<HostConfig> {
    let on_leap_days = Schedule::parse("0 0 29 2 *").context("no schedule")?;
    let mut engine = Config { reconcile_every_ms: 10 * DAY, ..Config::default() };
    engine.cleanup.settle_ms = SETTLE_MS;
    engine.cleanup.by_age = on_leap_days.clone();
    engine.cleanup.pressure = on_leap_days.clone();
    engine.cleanup.reconcile = on_leap_days;
    Ok(HostConfig {
        data: data.to_owned(),
        nursery,
        // Nobody imports an image here.
        unpacker: Unpacker { program: "/nonexistent".into(), arguments: Vec::new() },
        engine,
        objects: ObjectsPlace::default(),
        keep: Keep::default(),
        stale_after_ms: Keep::default().logs_ms,
    })
}

/// The usual ones, but for how scarce memory and disk are on the machine that this happens to run on.
fn rules(pace: Pace) -> Rules {
    let mut rules = AlertRules::default();
    rules.put(Alert::ResourcePressure, Rule { threshold: f64::MAX, sustained_ms: 0, minimum: 0 });
    Rules { alerts: AlertsConfig { every: pace.0, rules, ..AlertsConfig::default() }, ..Rules::default() }
}
