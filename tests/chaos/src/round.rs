//! One round: a maker is killed, `pinfold reconcile` cleans up (and may be killed too), and what exists is
//! compared with what is wanted. In the end everything is stopped, and nothing may be left.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use pinfold_lifecycle::{Lease, Life, SandboxId};
use pinfold_store::{Seq, Store, StoredSandbox};
use pinfold_store_sqlite::SqliteStore;

use crate::host_scan::HostScan;
use crate::node::{present, runtime};
use crate::tally::Tally;
use crate::victim::{Moment, PROMISE, Victim};

/// Latest kill times: after the maker's start, when its sandboxes may just have been created, and after its first
/// promise.
const LONGEST_LIFE_MS: u64 = 600;
const LONGEST_AFTER_A_PROMISE_MS: u64 = 1_000;
const LONGEST_REPAIR_MS: u64 = 250;
const LONGEST_STOP_MS: u64 = 150;
pub(crate) struct Round<'a> {
    pinfold: &'a Path,
    data: tempfile::TempDir,
    host_scan: HostScan,
    rng: fastrand::Rng,
    seed: u64,
}

/// Cleans up after a failed round.
impl Drop for Round<'_> {
    fn drop(&mut self) {
        self.host_scan.clear();
    }
}

impl<'a> Round<'a> {
    pub(crate) fn new(pinfold: &'a Path, seed: u64) -> Result<Self> {
        let data = tempfile::tempdir().context("could not make a directory")?;
        let instance = SqliteStore::open(&data.path().join("store"))?.store_id();
        let outside = HostScan::new(data.path(), instance);
        Ok(Self { pinfold, data, host_scan: outside, rng: fastrand::Rng::with_seed(seed), seed })
    }

    pub(crate) fn go(&mut self, tally: &mut Tally) -> Result<()> {
        let promised = tally.time("make", || self.kill_maker())?;
        let (homes, left) = tally.time("scan", || {
            anyhow::Ok((self.host_scan.process_namespaces()?, self.host_scan.resources()?))
        })?;
        tally.killed(&self.rows_after_kill()?);
        if self.rng.u8(0..3) == 0 {
            let moment = Moment::AfterItsStart(self.up_to(LONGEST_REPAIR_MS));
            Victim::start(&mut self.reconcile())?.kill(moment, false)?;
        }
        tally.time("repair", || self.repair())?;
        let wanted = tally.time("scan", || self.check_only_wanted_left())?;
        let is_wanted = |id: &str| wanted.iter().any(|name| name.contains(id));
        if let Some(id) = promised.keys().find(|id| !is_wanted(id)) {
            bail!("{id} was promised to stay and is gone: {}", self.history_of(id)?);
        }
        let words = promised.iter().flat_map(|(id, word)| [id.as_str(), word.as_str()]);
        tally.time("read back", || self.finish(self.role("read-back").args(words)))?;
        tally.repaired(promised.len(), left.keys().filter(|name| !wanted.contains(*name)).count());

        if self.rng.u8(0..3) == 0 {
            let moment = Moment::AfterItsStart(self.up_to(LONGEST_STOP_MS));
            Victim::start(&mut self.role("stop-all"))?.kill(moment, true)?;
            tally.time("repair", || self.repair())?;
            tally.time("scan", || self.check_only_wanted_left())?;
        }
        tally.time("stop", || self.finish(&mut self.role("stop-all")))?;
        let resources = tally.time("scan", || self.host_scan.resources())?;
        ensure!(resources.is_empty(), "everything was stopped, and this is left: {resources:#?}");
        let inhabited = HostScan::processes_in(&homes)?;
        ensure!(inhabited.is_empty(), "everything was stopped, and these processes are left: {inhabited:#?}");
        Ok(())
    }

    /// The promised sandboxes, and the word in each.
    fn kill_maker(&mut self) -> Result<BTreeMap<String, String>> {
        // Two of three makers run until their first promise, so that most rounds have something to read back on
        // any machine.
        let moment = if self.seed.is_multiple_of(3) {
            Moment::AfterItsStart(self.up_to(LONGEST_LIFE_MS))
        } else {
            Moment::AfterItsFirstPromise(self.up_to(LONGEST_AFTER_A_PROMISE_MS))
        };
        let spawner_too = self.rng.u8(0..4) == 0;
        let seed = self.seed.to_string();
        let heard = Victim::start(self.role("maker").arg(seed))?.kill(moment, spawner_too)?;
        let mut promised = BTreeMap::new();
        for line in heard {
            match line.split(' ').collect::<Vec<_>>()[..] {
                [PROMISE, id, word] => drop(promised.insert(id.to_owned(), word.to_owned())),
                ["gone", id] => {
                    let resources = self.host_scan.resources()?;
                    let left = resources.keys().find(|name| name.contains(id));
                    ensure!(left.is_none(), "{id} was proven gone, and this is left: {resources:#?}");
                }
                // A maker whose spawner was killed just before it may report a failure.
                _ if spawner_too => {}
                _ => bail!("the maker said: {line}"),
            }
        }
        Ok(promised)
    }

    /// Reads a copy, so that `pinfold reconcile` is the first to open the real store.
    fn rows_after_kill(&self) -> Result<Vec<StoredSandbox>> {
        let copy = tempfile::tempdir().context("could not make a directory")?;
        for file in fs::read_dir(self.data.path().join("store")).context("there is no store")? {
            let file = file?;
            fs::copy(file.path(), copy.path().join(file.file_name())).context("could not copy the store")?;
        }
        let store = SqliteStore::open(copy.path())?;
        runtime()?.block_on(present(&store))
    }

    fn repair(&self) -> Result<()> {
        self.finish(&mut self.reconcile())
    }

    /// Compares the resources with the rows. Returns the names of all wanted instances.
    fn check_only_wanted_left(&self) -> Result<BTreeSet<String>> {
        let store = SqliteStore::open(&self.data.path().join("store"))?;
        let mut wanted = BTreeSet::new();
        for stored in runtime()?.block_on(present(&store))? {
            let sandbox = &stored.sandbox;
            let lives = matches!((&sandbox.life, &sandbox.lease), (Life::Wanted, Lease::Live(_)));
            ensure!(lives && !stored.policy.ends_with_owner, "not settled after the repair: {sandbox:?}");
            wanted.insert(format!("v1.{}.{}", sandbox.id, sandbox.generation().0));
        }
        let mut resources = self.host_scan.resources()?;
        // Base cgroups are shared by all instances.
        let shared = resources.remove("no name").unwrap_or_default();
        let stray = shared.iter().find(|resource| !resource.starts_with("cgroup: ") || wanted.is_empty());
        ensure!(stray.is_none(), "resource without an instance name: {stray:?}");
        for (name, resources) in &resources {
            ensure!(wanted.contains(name), "unwanted {name} is left: {resources:#?}");
        }
        for name in &wanted {
            let lives = resources
                .get(name)
                .is_some_and(|resources| resources.iter().any(|it| it.starts_with("process")));
            ensure!(lives, "{name} is wanted, and no process of it is there: {:#?}", resources.get(name));
        }
        Ok(wanted)
    }

    /// The sandbox's history, for the failure message.
    fn history_of(&self, id: &str) -> Result<String> {
        let id: SandboxId = id.parse().ok().with_context(|| format!("`{id}` is no id"))?;
        let store = SqliteStore::open(&self.data.path().join("store"))?;
        let records = runtime()?.block_on(store.history(Some(id), Seq(0), 1_000))?;
        Ok(records.iter().map(|row| format!("\n{:?}", row.record.fact)).collect())
    }

    fn up_to(&mut self, ms: u64) -> Duration {
        Duration::from_micros(self.rng.u64(0..ms * 1_000))
    }

    fn reconcile(&self) -> Command {
        let mut command = Command::new(self.pinfold);
        command.args(["reconcile", "--wait", "5m", "--data-dir"]).arg(self.data.path());
        command
    }

    fn role(&self, role: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap_or_default());
        command.arg(role).arg(self.data.path());
        command
    }

    fn finish(&self, command: &mut Command) -> Result<()> {
        let (status, said) = Victim::start(command)?.finish()?;
        ensure!(status.success(), "{command:?} ended with {status}: {said:#?}");
        Ok(())
    }
}
