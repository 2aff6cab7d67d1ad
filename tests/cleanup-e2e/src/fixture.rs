//! The real server on its own data directory, with a clock that can be shifted. `Fixture::end` must be called: it
//! removes everything.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use pinfold_alerts::{Alert, Rule, Rules as AlertRules};
use pinfold_client::Client;
use pinfold_engine::{Config, HostLiveness, NodeLiveness, OnExit, Schedule};
use pinfold_host::{Programs, TestHooks, start_host_with};
use pinfold_http::{Endpoint, ServerConfig, serve};
use pinfold_images::Unpacker;
use pinfold_lifecycle::{NodeId, SandboxId, Timestamp};
use pinfold_linux::SpawnerProgram;
use pinfold_logs::RetentionPeriods;
use pinfold_notify::AlertsConfig;
use pinfold_service::{HostConfig, ObjectStoreConfig, Service, ServiceConfig};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::aged_provider::AgedProvider;
use crate::clock::ShiftedClock;

pub(crate) const MINUTE: u64 = 60_000;
pub(crate) const DAY: u64 = 24 * 60 * MINUTE;
/// No cleanup runs before that. Longer than any limit on a stuck sandbox.
const SETTLE_MS: u64 = 60 * MINUTE;
/// A node whose process lives but never does its work.
pub(crate) const STALLED_NODE: NodeId = NodeId(77);
/// How long sandboxes may take to end with their server.
const END_MS: u64 = 60_000;

/// How often alerts are evaluated: seconds in a server, less in a test.
#[derive(Debug, Clone, Copy)]
pub struct AlertInterval(pub Duration);

pub struct Fixture {
    pub service: Arc<Service>,
    pub clock: Arc<ShiftedClock>,
    /// When the first scheduled cleanup runs.
    pub first_cleanup_at: Timestamp,
    pub(crate) failing_probes: Arc<Mutex<BTreeSet<SandboxId>>>,
    data: tempfile::TempDir,
}

/// A running HTTP server. Call `end` before dropping it.
pub struct RunningServer {
    pub client: Client,
    stop: oneshot::Sender<()>,
    task: JoinHandle<std::io::Result<()>>,
}

impl Fixture {
    pub async fn begin(
        data: tempfile::TempDir,
        spawner: SpawnerProgram,
        alert_interval: AlertInterval,
    ) -> Result<Self> {
        let clock = Arc::new(ShiftedClock::default());
        let broken = Arc::<Mutex<BTreeSet<SandboxId>>>::default();
        let (own_clock, probes, shifted) = (clock.clone(), broken.clone(), clock.clone());
        let seams = TestHooks {
            clock: Box::new(move |real| shifted.over(real)),
            parts: Box::new(move |mut parts| {
                parts.provider =
                    Arc::new(AgedProvider { inner: parts.provider, clock: own_clock, broken: probes });
                parts
            }),
        };
        let host = start_host_with(config(data.path())?, programs(spawner), seams).await?;
        host.store.heartbeat(HostLiveness::take()?.this_node(STALLED_NODE), host.clock.now()).await?;
        let first_cleanup_at = host.cleaner.active_from();
        let service = Arc::new(Service::with(host, rules(alert_interval)));
        service.ensure_first_token().await?;
        Ok(Self { service, clock, first_cleanup_at, failing_probes: broken, data })
    }

    /// Starts the HTTP server and the evaluation of alerts.
    pub async fn start_server(&self) -> Result<RunningServer> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let token = std::fs::read_to_string(self.data.path().join("admin.token"))?;
        let client = Client::new(&format!("http://{address}"), token.trim())?;
        let (stop, stopped) = oneshot::channel();
        let service = self.service.clone();
        let task = tokio::spawn(async move {
            let doors = vec![Endpoint::plain(listener)];
            serve(service, doors, &ServerConfig::default(), async { drop(stopped.await) }).await
        });
        Ok(RunningServer { client, stop, task })
    }

    pub(crate) fn store_file(&self) -> std::path::PathBuf {
        self.data.path().join("store/pinfold.db")
    }

    /// Sandboxes with an instance, and whether it is complete.
    pub async fn instances(&self) -> Result<Vec<(SandboxId, bool)>> {
        let found = self.service.host().provider.discover().await?.found;
        Ok(found.into_iter().map(|found| (found.instance.sandbox, found.whole)).collect())
    }

    /// Stops everything. Fails if sandboxes had to be stopped by force.
    pub async fn end(&self) -> Result<()> {
        let left = self.service.shutdown(OnExit::Stop, END_MS).await;
        let host = self.service.host();
        let found = host.provider.discover().await?.found;
        for found in &found {
            host.provider.stop(found.instance, 0).await;
        }
        ensure!(self.instances().await?.is_empty(), "instances are left");
        match left {
            Ok(left) if left.is_empty() && found.is_empty() => Ok(()),
            Ok(left) => bail!("{left:?} had not ended in time, and {found:?} was there"),
            Err(error) => Err(error.into()),
        }
    }
}

impl RunningServer {
    pub async fn end(self) -> Result<()> {
        drop(self.stop);
        Ok(self.task.await??)
    }
}

fn programs(spawner: SpawnerProgram) -> Programs {
    // No test imports an image.
    let unpacker = Unpacker { program: "/nonexistent".into(), arguments: Vec::new() };
    Programs { spawner, unpacker }
}

/// Only the scheduled layer of cleanup runs, and no reconciliation.
fn config(data: &Path) -> Result<HostConfig> {
    let on_leap_days = Schedule::parse("0 0 29 2 *").context("no schedule")?;
    let mut engine = Config { reconcile_every_ms: 10 * DAY, ..Config::default() };
    engine.cleanup.settle_ms = SETTLE_MS;
    engine.cleanup.by_age = on_leap_days.clone();
    engine.cleanup.pressure = on_leap_days.clone();
    engine.cleanup.reconcile = on_leap_days;
    Ok(HostConfig {
        data: data.to_owned(),
        engine,
        objects: ObjectStoreConfig::default(),
        keep: RetentionPeriods::default(),
        stale_after_ms: RetentionPeriods::default().logs_ms,
    })
}

/// The default rules, without the one on this machine's memory and disk.
fn rules(alert_interval: AlertInterval) -> ServiceConfig {
    let mut rules = AlertRules::default();
    rules.set(Alert::ResourcePressure, Rule { threshold: f64::MAX, sustained_ms: 0, minimum: 0 });
    ServiceConfig {
        alerts: AlertsConfig { every: alert_interval.0, rules, ..AlertsConfig::default() },
        ..ServiceConfig::default()
    }
}
