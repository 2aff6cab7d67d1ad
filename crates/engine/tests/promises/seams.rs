//! Time, ids, the census and the weather of one stage: the seams through which an engine sees the world, each
//! under the test's control.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use pinfold_engine::{Census, Clock, Fate, Ids};
use pinfold_lifecycle::{NodeId, Timestamp};
use pinfold_provider::fake::{Call, Fault, Forecast, Weather};
use pinfold_store::{Node, NodeSeen};
use tokio::sync::watch;
use tokio::time::Instant;

/// Some morning.
pub(crate) const DAWN: Timestamp = Timestamp(1_700_000_000_000);

/// Virtual time. One process can be stopped in its tracks by it, as SIGSTOP does: nothing that sleeps wakes up.
#[derive(Clone)]
pub(crate) struct StageClock {
    began: Instant,
    paused: watch::Sender<bool>,
}

impl StageClock {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), paused: watch::Sender::new(false) }
    }

    /// The same time, as another process sees it.
    pub(crate) fn of_another_process(&self) -> Self {
        Self { began: self.began, paused: watch::Sender::new(false) }
    }

    pub(crate) fn pause(&self) {
        self.paused.send_replace(true);
    }

    pub(crate) fn go_on(&self) {
        self.paused.send_replace(false);
    }
}

#[async_trait]
impl Clock for StageClock {
    fn now(&self) -> Timestamp {
        DAWN.after_ms(u64::try_from(self.began.elapsed().as_millis()).unwrap())
    }

    async fn sleep_until(&self, at: Timestamp) {
        while self.now() < at {
            tokio::time::sleep(Duration::from_millis(at.ms_since(self.now()))).await;
        }
        let mut paused = self.paused.subscribe();
        paused.wait_for(|paused| !paused).await.unwrap();
    }
}

#[derive(Default)]
pub(crate) struct CountingIds {
    last: AtomicU64,
}

impl Ids for CountingIds {
    fn fresh(&self, now: Timestamp) -> u128 {
        let time = u128::from(u64::try_from(now.0).unwrap()) << 80;
        time | u128::from(self.last.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// Who lives: everybody, until the test says otherwise.
#[derive(Default)]
pub(crate) struct StageCensus {
    fates: Mutex<BTreeMap<NodeId, Fate>>,
}

impl StageCensus {
    pub(crate) fn declare_dead(&self, node: NodeId) {
        self.fates.lock().unwrap().insert(node, Fate::Dead);
    }

    /// The host restarts: whoever is known now is dead, and what it made is gone.
    pub(crate) fn reboot(&self) {
        for fate in self.fates.lock().unwrap().values_mut() {
            *fate = Fate::DeadByRestart;
        }
    }
}

impl Census for StageCensus {
    fn me(&self, id: NodeId) -> Node {
        self.fates.lock().unwrap().entry(id).or_insert(Fate::Alive);
        Node { id, host: "stage".into(), boot_id: "first".into(), pid: 1, started: 1 }
    }

    fn fate_of(&self, other: &NodeSeen, _now: Timestamp, _dead_after_ms: u64) -> Fate {
        let fates = self.fates.lock().unwrap();
        fates.get(&other.node.id).copied().unwrap_or(Fate::Alive)
    }
}

/// Calm, but for what the test foretells.
pub(crate) struct StageWeather {
    clock: StageClock,
    next: Mutex<Vec<(Call, Forecast)>>,
    lasting: Mutex<Vec<(Call, Forecast)>>,
    calls: Mutex<Vec<(Call, Timestamp)>>,
}

impl StageWeather {
    pub(crate) fn over(clock: StageClock) -> Arc<Self> {
        Arc::new(Self { clock, next: Mutex::default(), lasting: Mutex::default(), calls: Mutex::default() })
    }

    /// The next call of this kind that nothing is foretold for yet.
    pub(crate) fn next(&self, call: Call, forecast: Forecast) {
        self.next.lock().unwrap().push((call, forecast));
    }

    /// Every call of this kind, until it clears up.
    pub(crate) fn always(&self, call: Call, forecast: Forecast) {
        self.lasting.lock().unwrap().push((call, forecast));
    }

    pub(crate) fn clear_up(&self) {
        self.lasting.lock().unwrap().clear();
    }

    /// How often the world was called like this.
    pub(crate) fn calls(&self, call: Call) -> usize {
        let calls = self.calls.lock().unwrap();
        calls.iter().filter(|(made, _)| *made == call).count()
    }
}

impl Weather for StageWeather {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn sleep_ms(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (clock, until) = (self.clock.clone(), self.clock.now().after_ms(ms));
        Box::pin(async move { clock.sleep_until(until).await })
    }

    fn forecast(&self, call: Call) -> Forecast {
        self.calls.lock().unwrap().push((call, self.now()));
        let mut next = self.next.lock().unwrap();
        if let Some(index) = next.iter().position(|(foretold, _)| *foretold == call) {
            return next.remove(index).1;
        }
        let lasting = self.lasting.lock().unwrap();
        let foretold = lasting.iter().find(|(foretold, _)| *foretold == call);
        foretold.map(|(_, forecast)| *forecast).unwrap_or_default()
    }
}

/// Longer than anything waits.
const FOR_EVER_MS: u64 = 10 * 86_400_000;

pub(crate) fn fault(fault: Fault) -> Forecast {
    Forecast { fault: Some(fault), ..Forecast::default() }
}

/// Nothing is done for so long.
pub(crate) fn slow(before_ms: u64) -> Forecast {
    Forecast { before_ms, ..Forecast::default() }
}

/// Half of it is done for so long.
pub(crate) fn halfway(halfway_ms: u64) -> Forecast {
    Forecast { halfway_ms, ..Forecast::default() }
}

/// It is done, and the answer takes so long.
pub(crate) fn answered_after(after_ms: u64) -> Forecast {
    Forecast { after_ms, ..Forecast::default() }
}

pub(crate) fn hangs() -> Forecast {
    slow(FOR_EVER_MS)
}
