//! Whether the host itself has room for one more. It is looked at before anything is leased; where the disk is short,
//! stale data goes and it is looked at again. No sandbox is ever ended for it.

use std::sync::{Arc, OnceLock};

use pinfold_lifecycle::{Cleared, HostRoom, NoRoom, Reserve, Timestamp};
use tokio::sync::Mutex;

use crate::How;
use crate::engine::{Engine, Inner};
use crate::stale::StaleData;

/// How long a look counts.
const FRESH_MS: u64 = 1_000;
/// How long a look may take.
const LOOK_MS: u64 = 2_000;
/// Between two attempts to make room, and how long one may take.
const CLEAR_EVERY_MS: u64 = 10_000;
const CLEAR_MS: u64 = 10_000;

/// What was seen last. Whoever looks while another does waits for what that one finds.
#[derive(Default)]
pub(crate) struct Room {
    seen: Mutex<Seen>,
    stale: OnceLock<Arc<dyn StaleData>>,
}

#[derive(Default)]
struct Seen {
    room: Option<(Timestamp, Result<HostRoom, NoRoom>)>,
    cleared: Option<(Timestamp, Cleared)>,
}

impl Room {
    pub(crate) fn stale(&self) -> Option<&Arc<dyn StaleData>> {
        self.stale.get()
    }
}

impl Engine {
    /// Where else stale data is, besides the store. Said once.
    pub fn knows_stale(&self, stale: Arc<dyn StaleData>) {
        // Whoever says it again has nothing new to say.
        let _ = self.inner.room.stale.set(stale);
    }
}

impl Inner {
    pub(crate) async fn host_has_room(&self) -> Result<(), NoRoom> {
        let keep = self.config.keep;
        if keep == Reserve::default() {
            return Ok(());
        }
        let mut seen = self.room.seen.lock().await;
        let room = self.look(&mut seen, FRESH_MS).await?;
        let is_short = |refused: &NoRoom| matches!(refused, NoRoom::LowDisk { .. });
        match room.admit(&keep, Cleared::default()) {
            Err(refused) if is_short(&refused) => {
                let cleared = self.make_room_on_disk(&mut seen).await;
                self.look(&mut seen, FRESH_MS).await?.admit(&keep, cleared)
            }
            decided => decided,
        }
    }

    async fn look(&self, seen: &mut Seen, fresh_ms: u64) -> Result<HostRoom, NoRoom> {
        let now = self.clock.now();
        if let Some((at, room)) = &seen.room
            && now.ms_since(*at) < fresh_ms
        {
            return room.clone();
        }
        let room = self.measure().await;
        seen.room = Some((self.clock.now(), room.clone()));
        room
    }

    async fn measure(&self) -> Result<HostRoom, NoRoom> {
        let unmeasurable = |what: String| NoRoom::Unmeasurable { what };
        let too_long = self.clock.now().after_ms(LOOK_MS);
        let measured = tokio::select! {
            biased;
            measured = self.provider.capacity() => measured,
            () = self.clock.sleep_until(too_long) => return Err(unmeasurable("it takes too long".to_owned())),
        };
        let left = measured.map_err(|error| unmeasurable(error.to_string()))?;
        Ok(HostRoom {
            disk_mb: left.disk_mb_left,
            memory_mb: left.memory_mb_left,
            processes: left.processes_left,
            unusable: left.disk_unusable,
        })
    }

    /// What the last attempt came to, where that is not long ago.
    async fn make_room_on_disk(&self, seen: &mut Seen) -> Cleared {
        let now = self.clock.now();
        if let Some((at, cleared)) = seen.cleared
            && now.ms_since(at) < CLEAR_EVERY_MS
        {
            return cleared;
        }
        let cleared = tokio::select! {
            biased;
            cleared = self.clear_stale(How::Act) => cleared,
            () = self.clock.sleep_until(now.after_ms(CLEAR_MS)) => Cleared::default(),
        };
        tracing::warn!(
            cleaned = cleared.cleaned,
            skipped = cleared.skipped,
            "the disk is short; stale data went"
        );
        seen.cleared = Some((self.clock.now(), cleared));
        seen.room = None;
        cleared
    }
}
