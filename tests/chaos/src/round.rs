//! One round: a maker is killed, `pinfold reconcile` cleans up after it (and may be killed at that too), and what is
//! there is compared with what is wanted. In the end everything is stopped, and nothing may be left.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use pinfold_lifecycle::{Lease, Life, SandboxId};
use pinfold_store::{Seq, SqliteStore, Store, Stored};

use crate::node::{present, runtime};
use crate::outside::Outside;
use crate::tally::Tally;
use crate::victim::{Moment, PROMISE, Victim};

/// The latest moments of a maker's life at which it is killed: from its start, when its sandboxes may just have been
/// made, and from its first promise.
const LONGEST_LIFE_MS: u64 = 600;
const LONGEST_AFTER_A_PROMISE_MS: u64 = 400;
const LONGEST_REPAIR_MS: u64 = 250;
const LONGEST_STOP_MS: u64 = 150;
pub(crate) struct Round<'a> {
    pinfold: &'a Path,
    data: tempfile::TempDir,
    outside: Outside,
    rng: fastrand::Rng,
    seed: u64,
}

/// Whatever a failed round has left.
impl Drop for Round<'_> {
    fn drop(&mut self) {
        self.outside.clear();
    }
}

impl<'a> Round<'a> {
    pub(crate) fn new(pinfold: &'a Path, seed: u64) -> Result<Self> {
        let data = tempfile::tempdir().context("could not make a directory")?;
        let instance = SqliteStore::open(&data.path().join("store"))?.instance();
        let outside = Outside::new(data.path(), instance);
        Ok(Self { pinfold, data, outside, rng: fastrand::Rng::with_seed(seed), seed })
    }

    pub(crate) fn go(&mut self, tally: &mut Tally) -> Result<()> {
        let promised = tally.time("make", || self.kill_a_maker())?;
        let (homes, left) =
            tally.time("look", || anyhow::Ok((self.outside.homes()?, self.outside.things()?)))?;
        tally.killed(&self.records_as_they_were_left()?);
        if self.rng.u8(0..3) == 0 {
            let moment = Moment::AfterItsStart(self.up_to(LONGEST_REPAIR_MS));
            Victim::start(&mut self.reconcile())?.kill(moment, false)?;
        }
        tally.time("repair", || self.repair())?;
        let wanted = tally.time("look", || self.only_what_is_wanted_is_there())?;
        for id in promised.keys().filter(|id| !wanted.iter().any(|mark| mark.contains(*id))) {
            bail!("{id} was promised to stay and is gone: {}", self.history_of(id)?);
        }
        let words = promised.iter().flat_map(|(id, word)| [id.as_str(), word.as_str()]);
        tally.time("visit", || self.finish(self.role("visitor").args(words)))?;
        tally.repaired(promised.len(), left.keys().filter(|mark| !wanted.contains(*mark)).count());

        if self.rng.u8(0..3) == 0 {
            let moment = Moment::AfterItsStart(self.up_to(LONGEST_STOP_MS));
            Victim::start(&mut self.role("stopper"))?.kill(moment, true)?;
            tally.time("repair", || self.repair())?;
            tally.time("look", || self.only_what_is_wanted_is_there())?;
        }
        tally.time("stop", || self.finish(&mut self.role("stopper")))?;
        let things = tally.time("look", || self.outside.things())?;
        ensure!(things.is_empty(), "everything was stopped, and this is left: {things:#?}");
        let inhabited = Outside::inhabited(&homes)?;
        ensure!(inhabited.is_empty(), "everything was stopped, and these live on: {inhabited:#?}");
        Ok(())
    }

    /// What it promised: sandboxes that stay, and the word in each.
    fn kill_a_maker(&mut self) -> Result<BTreeMap<String, String>> {
        let moment = if self.seed.is_multiple_of(2) {
            Moment::AfterItsFirstPromise(self.up_to(LONGEST_AFTER_A_PROMISE_MS))
        } else {
            Moment::AfterItsStart(self.up_to(LONGEST_LIFE_MS))
        };
        let nursery_too = self.rng.u8(0..4) == 0;
        let seed = self.seed.to_string();
        let heard = Victim::start(self.role("maker").arg(seed))?.kill(moment, nursery_too)?;
        let mut promised = BTreeMap::new();
        for line in heard {
            match line.split(' ').collect::<Vec<_>>()[..] {
                [PROMISE, id, word] => drop(promised.insert(id.to_owned(), word.to_owned())),
                ["gone", id] => {
                    let things = self.outside.things()?;
                    let left = things.keys().find(|mark| mark.contains(id));
                    ensure!(left.is_none(), "{id} was proven gone, and this is left: {things:#?}");
                }
                // A maker whose nursery was killed a moment before it may say that it failed.
                _ if nursery_too => {}
                _ => bail!("the maker said: {line}"),
            }
        }
        Ok(promised)
    }

    /// Read from a copy: the repair is to be the first that finds them.
    fn records_as_they_were_left(&self) -> Result<Vec<Stored>> {
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

    /// Compares what is there with the records. Says the marks of all that is wanted.
    fn only_what_is_wanted_is_there(&self) -> Result<BTreeSet<String>> {
        let store = SqliteStore::open(&self.data.path().join("store"))?;
        let mut wanted = BTreeSet::new();
        for stored in runtime()?.block_on(present(&store))? {
            let sandbox = &stored.sandbox;
            let lives = matches!((&sandbox.life, &sandbox.lease), (Life::Wanted, Lease::Live(_)));
            ensure!(lives && !stored.policy.ends_with_owner, "not settled after the repair: {sandbox:?}");
            wanted.insert(format!("v1.{}.{}", sandbox.id, sandbox.generation().0));
        }
        let mut things = self.outside.things()?;
        // Bases of groups belong to all.
        let shared = things.remove("no mark").unwrap_or_default();
        let stray = shared.iter().find(|thing| !thing.starts_with("cgroup: ") || wanted.is_empty());
        ensure!(stray.is_none(), "it carries no mark: {stray:?}");
        for (mark, things) in &things {
            ensure!(wanted.contains(mark), "nobody wants {mark}, and this is left: {things:#?}");
        }
        for mark in &wanted {
            let lives =
                things.get(mark).is_some_and(|things| things.iter().any(|it| it.starts_with("process")));
            ensure!(lives, "{mark} is wanted, and no process of it is there: {:#?}", things.get(mark));
        }
        Ok(wanted)
    }

    /// Why a sandbox is as it is.
    fn history_of(&self, id: &str) -> Result<String> {
        let id: SandboxId = id.parse().ok().with_context(|| format!("`{id}` is no id"))?;
        let store = SqliteStore::open(&self.data.path().join("store"))?;
        let records = runtime()?.block_on(store.history(Some(id), Seq(0), 1_000))?;
        Ok(format!("{records:#?}"))
    }

    fn up_to(&mut self, ms: u64) -> Duration {
        Duration::from_micros(self.rng.u64(0..ms * 1_000))
    }

    fn reconcile(&self) -> Command {
        let mut command = Command::new(self.pinfold);
        command.args(["reconcile", "--data-dir"]).arg(self.data.path());
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
