//! Accepts connections with timeouts, within the bounds of `connections.rs`, and shuts down gracefully.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::connections::{ConnectionPools, Eviction, PooledConnection};
use super::{ServerConfig, Tls, assemble};
use pinfold_service::{ServerLoops, Service};

/// The remote address of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) IpAddr);

/// The port at which a connection arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct LocalPort(pub(super) u16);

/// The place of one connection, free after its last clone. Upgraded connections, such as terminals, keep a clone.
#[derive(Clone)]
pub(super) struct ConnectionPermit {
    pub(super) connection: Arc<PooledConnection>,
    /// How often a long-lived connection is checked: whether the peer is there, and its token still valid.
    pub(super) recheck_interval: Duration,
}

/// How long open connections may take to finish at shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
const SEND_TIMEOUT_MS: u32 = 120_000;
const RECHECK_INTERVAL: Duration = Duration::from_secs(15);
/// Pause after a failed accept, usually because of too many open files.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// A listening socket, with or without TLS.
pub struct Endpoint {
    listener: TcpListener,
    tls: Option<Tls>,
    recheck_interval: Duration,
}

impl Endpoint {
    #[must_use]
    pub fn plain(listener: TcpListener) -> Self {
        Self { listener, tls: None, recheck_interval: RECHECK_INTERVAL }
    }

    #[must_use]
    pub fn with_tls(listener: TcpListener, tls: Tls) -> Self {
        Self { listener, tls: Some(tls), recheck_interval: RECHECK_INTERVAL }
    }

    /// Sets how often long-lived connections, terminals and streams, are checked.
    #[must_use]
    pub fn with_recheck_interval(self, recheck_interval: Duration) -> Self {
        Self { recheck_interval, ..self }
    }
}

/// Serves until `stopped`, then lets open requests finish. Streams end and their clients are told to reconnect.
pub async fn serve(
    service: Arc<Service>,
    endpoints: Vec<Endpoint>,
    config: &ServerConfig,
    stopped: impl Future<Output = ()>,
) -> io::Result<()> {
    // Before the router, which traces requests only where tracing is on.
    let loops = ServerLoops::begin(&service, &config.loops);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(config.head_timeout);
    let handler = ConnectionHandler {
        router: assemble(service.clone(), config),
        http,
        pools: ConnectionPools::new(config),
        head_timeout: config.head_timeout,
        closing: watch::Sender::new(false),
    };
    let mut open: JoinSet<_> =
        endpoints.into_iter().map(|endpoint| handler.clone().accept_loop(endpoint)).collect();
    tokio::select! {
        () = stopped => {}
        // An accept loop ends only by a panic.
        Some(Err(broken)) = open.join_next() => return Err(io::Error::other(broken)),
    }
    open.shutdown().await;
    drop(loops);
    service.close_streams();
    handler.closing.send_replace(true);
    if tokio::time::timeout(DRAIN_TIMEOUT, handler.pools.until_empty()).await.is_err() {
        tracing::warn!("some connections did not finish in time, closing them");
    }
    service.flush_metrics().await;
    Ok(())
}

/// Handles the connections of all endpoints.
#[derive(Clone)]
struct ConnectionHandler {
    router: Router,
    http: http1::Builder,
    pools: Arc<ConnectionPools>,
    head_timeout: Duration,
    closing: watch::Sender<bool>,
}

impl ConnectionHandler {
    async fn accept_loop(self, endpoint: Endpoint) {
        loop {
            let (stream, ends) = accept(&endpoint.listener).await;
            let (connection, eviction) = self.pools.admit(ends.0.0);
            let permit = ConnectionPermit {
                connection: Arc::new(connection),
                recheck_interval: endpoint.recheck_interval,
            };
            let (handler, tls) = (self.clone(), endpoint.tls.clone());
            tokio::spawn(handler.handle_until_evicted(stream, tls, ends, permit, eviction));
        }
    }

    async fn handle_until_evicted(
        self,
        stream: TcpStream,
        tls: Option<Tls>,
        ends: (Peer, LocalPort),
        permit: ConnectionPermit,
        mut eviction: Eviction,
    ) {
        let handle = async {
            match tls {
                None => self.handle_connection(stream, ends, permit).await,
                Some(Tls(tls)) => {
                    // A failed handshake cannot be answered.
                    if let Ok(Ok(stream)) = tokio::time::timeout(self.head_timeout, tls.accept(stream)).await
                    {
                        self.handle_connection(stream, ends, permit).await;
                    }
                }
            }
        };
        tokio::select! {
            () = handle => {}
            // Dropping the connection closes it.
            () = eviction.happened() => {}
        }
    }

    async fn handle_connection(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        (peer, port): (Peer, LocalPort),
        permit: ConnectionPermit,
    ) {
        let router = TowerToHyperService::new(self.router.clone());
        let respond = service_fn(move |mut request: hyper::Request<Incoming>| {
            request.extensions_mut().insert(peer);
            request.extensions_mut().insert(port);
            request.extensions_mut().insert(permit.clone());
            router.call(request)
        });
        let connection = self.http.serve_connection(TokioIo::new(stream), respond).with_upgrades();
        let mut connection = std::pin::pin!(connection);
        let mut closing = self.closing.subscribe();
        // A broken connection is not an error of the server.
        tokio::select! {
            _ = connection.as_mut() => {}
            () = async { drop(closing.wait_for(|closing| *closing).await) } => {
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
            }
        }
    }
}

async fn accept(listener: &TcpListener) -> (TcpStream, (Peer, LocalPort)) {
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                // Responses are written in one piece, so delaying them to gather more data does not help.
                let _ = stream.set_nodelay(true);
                set_timeouts(&stream);
                // Port 0 proves nothing to any client.
                let port = stream.local_addr().map_or(0, |address| address.port());
                return (stream, (Peer(from.ip()), LocalPort(port)));
            }
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection, retrying");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

/// Drops connections whose peer accepts no data, since they hold a permit.
fn set_timeouts(stream: &TcpStream) {
    // Without these options the kernel's longer defaults apply.
    let _ = rustix::net::sockopt::set_tcp_user_timeout(stream, SEND_TIMEOUT_MS);
    let _ = rustix::net::sockopt::set_socket_keepalive(stream, true);
}
