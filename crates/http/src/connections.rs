//! Who may hold a connection. A connection counts as a stranger's until it shows a valid token, and then moves to the
//! pool of authorised ones:
//!
//! ```text
//!   accept ── stranger ── valid token ──> authorised
//!                │   at most `connections_per_address` of one address,    at most `connections`
//!                │   at most `connections_without_token` in all
//!                └── a newer stranger needs the place ──> closed, the oldest first
//! ```
//!
//! A newer stranger replaces the oldest one, because every client begins as a stranger: if newer ones were refused,
//! half-open connections could lock out all tokens. A client with a token needs its place only until its first request
//! head has arrived.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pinfold_api::ErrorCode;
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::time::Instant;

use super::ServerConfig;
use pinfold_service::Failure;

/// All open connections of a server.
pub(super) struct ConnectionPools {
    strangers: Mutex<Strangers>,
    per_address: usize,
    without_token: usize,
    authorised: Arc<Semaphore>,
    /// How long an authorised request waits for a place in its pool.
    wait: Duration,
    open: watch::Sender<usize>,
}

/// Connections that have shown no valid token.
#[derive(Default)]
struct Strangers {
    next: u64,
    /// By their number, the oldest first.
    by_age: BTreeMap<u64, Stranger>,
    by_network: HashMap<IpAddr, BTreeSet<u64>>,
    logged_at: Option<Instant>,
}

struct Stranger {
    network: IpAddr,
    /// Sends when the connection is to be closed. Dropped without sending when it is authorised.
    evict: oneshot::Sender<()>,
}

/// Resolves when a connection is to be closed for a newer one.
pub(super) struct Eviction(oneshot::Receiver<()>);

/// Replaced connections are logged at most once in this time.
const LOG_EVERY: Duration = Duration::from_secs(10);

impl ConnectionPools {
    pub(super) fn new(config: &ServerConfig) -> Arc<Self> {
        Arc::new(Self {
            strangers: Mutex::default(),
            per_address: config.connections_per_address,
            without_token: config.connections_without_token.min(most_strangers()),
            authorised: Arc::new(Semaphore::new(config.connections)),
            wait: config.head_timeout,
            open: watch::Sender::new(0),
        })
    }

    /// Admits a new connection as a stranger, in place of the oldest if there are too many.
    pub(super) fn admit(self: &Arc<Self>, from: IpAddr) -> (PooledConnection, Eviction) {
        let (evict, evicted) = oneshot::channel();
        let network = network_of(from);
        let mut strangers = self.strangers.lock().unwrap_or_else(PoisonError::into_inner);
        let of_network = strangers.by_network.get(&network);
        let oldest = if of_network.map_or(0, BTreeSet::len) >= self.per_address {
            of_network.and_then(BTreeSet::first).copied()
        } else if strangers.by_age.len() >= self.without_token {
            strangers.by_age.keys().next().copied()
        } else {
            None
        };
        if let Some(stranger) = oldest.and_then(|oldest| strangers.remove(oldest)) {
            strangers.log_eviction(from);
            // Its connection may just have ended.
            let _ = stranger.evict.send(());
        }
        let number = strangers.add(Stranger { network, evict });
        drop(strangers);
        self.open.send_modify(|open| *open += 1);
        (PooledConnection { pools: self.clone(), number, authorised: OnceCell::new() }, Eviction(evicted))
    }

    fn remove_stranger(&self, number: u64) -> Option<Stranger> {
        self.strangers.lock().unwrap_or_else(PoisonError::into_inner).remove(number)
    }

    /// Returns when no connection is open.
    pub(super) async fn until_empty(&self) {
        // The sender is `self.open`, so waiting cannot fail.
        let _ = self.open.subscribe().wait_for(|open| *open == 0).await;
    }
}

impl Strangers {
    fn add(&mut self, stranger: Stranger) -> u64 {
        let number = self.next;
        self.next += 1;
        self.by_network.entry(stranger.network).or_default().insert(number);
        self.by_age.insert(number, stranger);
        number
    }

    fn remove(&mut self, number: u64) -> Option<Stranger> {
        let stranger = self.by_age.remove(&number)?;
        if let Some(numbers) = self.by_network.get_mut(&stranger.network) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.by_network.remove(&stranger.network);
            }
        }
        Some(stranger)
    }

    fn log_eviction(&mut self, from: IpAddr) {
        let now = Instant::now();
        if self.logged_at.is_none_or(|at| now.duration_since(at) >= LOG_EVERY) {
            self.logged_at = Some(now);
            let open = self.by_age.len() + 1;
            let peer = from.to_string();
            tracing::warn!(
                security_event = "too_many_connections",
                peer,
                open,
                "too many connections without a valid token, closing the oldest"
            );
        }
    }
}

/// One open connection. Its places are free when it is dropped.
pub(super) struct PooledConnection {
    pools: Arc<ConnectionPools>,
    number: u64,
    authorised: OnceCell<OwnedSemaphorePermit>,
}

impl PooledConnection {
    /// Moves the connection to the authorised pool. Waits a moment for a place there.
    pub(super) async fn authorise(&self) -> Result<(), Failure> {
        let busy = || {
            let message = "all connections that the server allows are in use";
            Failure::new(ErrorCode::Unavailable, message).retry_after_ms(1_000)
        };
        let acquire = || async {
            drop(self.pools.remove_stranger(self.number));
            let permit = self.pools.authorised.clone().acquire_owned();
            let permit = tokio::time::timeout(self.pools.wait, permit).await.map_err(|_| busy())?;
            permit.map_err(|_| busy())
        };
        self.authorised.get_or_try_init(acquire).await.map(|_| ())
    }

    /// Whether the connection has shown a valid token.
    pub(super) fn is_authorised(&self) -> bool {
        self.authorised.initialized()
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        drop(self.pools.remove_stranger(self.number));
        self.pools.open.send_modify(|open| *open = open.saturating_sub(1));
    }
}

impl Eviction {
    /// Never returns for a connection that is authorised.
    pub(super) async fn happened(&mut self) {
        if (&mut self.0).await.is_err() {
            std::future::pending().await
        }
    }
}

/// A quarter of the files that this process may open, so that strangers do not use them up.
fn most_strangers() -> usize {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    files.map_or(usize::MAX, |files| usize::try_from(files / 4).unwrap_or(usize::MAX).max(1))
}

/// What counts as one address: an IPv6 host usually has a whole network of 64 bits.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pools(connections: usize, without_token: usize, per_address: usize) -> Arc<ConnectionPools> {
        ConnectionPools::new(&ServerConfig {
            connections,
            connections_without_token: without_token,
            connections_per_address: per_address,
            ..ServerConfig::default()
        })
    }

    fn address(last: u8) -> IpAddr {
        [127, 0, 0, last].into()
    }

    async fn is_evicted(eviction: &mut Eviction) -> bool {
        tokio::time::timeout(Duration::from_secs(1), eviction.happened()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn newer_stranger_replaces_the_oldest_of_its_address() {
        let pools = pools(1, 10, 2);
        let (_other, mut other_evicted) = pools.admit(address(1));
        let (_first, mut first_evicted) = pools.admit(address(2));
        let (_second, mut second_evicted) = pools.admit(address(2));
        let (_third, _) = pools.admit(address(2));

        assert!(is_evicted(&mut first_evicted).await);
        assert!(!is_evicted(&mut second_evicted).await);
        assert!(!is_evicted(&mut other_evicted).await);
    }

    #[tokio::test(start_paused = true)]
    async fn authorised_connection_is_never_replaced() {
        let pools = pools(1, 1, 1);
        let (known, mut known_evicted) = pools.admit(address(1));
        known.authorise().await.unwrap();

        let (_stranger, mut evicted) = pools.admit(address(1));
        let (_another, _) = pools.admit(address(2));

        assert!(!is_evicted(&mut known_evicted).await);
        assert!(is_evicted(&mut evicted).await);
    }

    #[tokio::test(start_paused = true)]
    async fn full_authorised_pool_refuses_after_a_wait_and_frees_places() {
        let pools = pools(1, 10, 10);
        let (first, _) = pools.admit(address(1));
        first.authorise().await.unwrap();
        let (second, _) = pools.admit(address(1));

        assert_eq!(second.authorise().await.unwrap_err().detail.code, ErrorCode::Unavailable);
        drop(first);
        second.authorise().await.unwrap();

        drop(second);
        pools.until_empty().await;
    }

    #[test]
    fn ipv6_hosts_of_one_network_count_as_one_address() {
        let network = |text: &str| network_of(text.parse().unwrap());

        assert_eq!(network("2001:db8:1:2::3"), network("2001:db8:1:2:ffff::9"));
        assert_ne!(network("2001:db8:1:2::3"), network("2001:db8:1:3::3"));
        assert_eq!(network("::ffff:10.0.0.7"), network("10.0.0.7"));
    }
}
