//! Connections: so many at once, heads that come in time, and an orderly end.

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
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

use super::{ServerConfig, Tls, assemble};
use crate::Service;
use crate::alerts;
use crate::housekeeping::keep_house;
use crate::measuring::{self, keep_measured};

/// The other end of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) IpAddr);

/// One of the connections that there may be at once. It is taken until the last copy is gone: what goes on when its
/// connection speaks HTTP no more, such as a terminal, keeps one.
#[derive(Debug, Clone)]
pub(super) struct Place {
    _taken: Arc<OwnedSemaphorePermit>,
    /// How often whoever stays long is looked at again: whether somebody is there, and still may be.
    pub(super) look_again: Duration,
}

/// How long the head of a request may take.
const HEAD: Duration = Duration::from_secs(15);
/// How long connections have to come to their end when the server does.
const DRAIN: Duration = Duration::from_secs(10);
const TAKES_NOTHING_MS: u32 = 120_000;
const LOOK_AGAIN: Duration = Duration::from_secs(15);
/// After a failed accept: too many open files, mostly, and those are given back by others.
const BREATH: Duration = Duration::from_millis(50);

/// Where connections come in.
pub struct Door {
    listener: TcpListener,
    tls: Option<Tls>,
    look_again: Duration,
}

impl Door {
    #[must_use]
    pub fn plain(listener: TcpListener) -> Self {
        Self { listener, tls: None, look_again: LOOK_AGAIN }
    }

    #[must_use]
    pub fn with_tls(listener: TcpListener, tls: Tls) -> Self {
        Self { listener, tls: Some(tls), look_again: LOOK_AGAIN }
    }

    /// Whoever stays long, at a terminal or with a stream, is looked at so often: whether somebody is there, and still
    /// may be.
    #[must_use]
    pub fn looking_again_after(self, look_again: Duration) -> Self {
        Self { look_again, ..self }
    }
}

/// Serves until `stopped`, and then lets what is under way come to its end. Streams are told to come back later.
pub async fn serve(
    service: Arc<Service>,
    doors: Vec<Door>,
    config: &ServerConfig,
    stopped: impl Future<Output = ()>,
) -> io::Result<()> {
    if let Some(telemetry) = &config.telemetry {
        service.begin_telemetry(telemetry);
    }
    let house = AbortOnDrop(tokio::spawn(keep_house(service.clone(), config.housekeeping)));
    let figures = AbortOnDrop(tokio::spawn(keep_measured(service.clone(), config.keep_figures)));
    let watch_over = AbortOnDrop(tokio::spawn(alerts::watch(service.clone())));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD);
    let hall = Hall {
        router: assemble(service.clone(), config),
        http,
        places: Arc::new(Semaphore::new(config.connections)),
        closing: watch::Sender::new(false),
    };
    let mut open: JoinSet<_> = doors.into_iter().map(|door| hall.clone().let_in_by(door)).collect();
    tokio::select! {
        () = stopped => {}
        // A door stays open for as long as the server does.
        Some(Err(broken)) = open.join_next() => return Err(io::Error::other(broken)),
    }
    open.shutdown().await;
    drop((house, figures, watch_over));
    service.close_streams();
    hall.closing.send_replace(true);
    let all = u32::try_from(config.connections).unwrap_or(u32::MAX);
    if tokio::time::timeout(DRAIN, hall.places.acquire_many(all)).await.is_err() {
        tracing::warn!("some connections did not come to their end in time");
    }
    measuring::finish(&service).await;
    Ok(())
}

/// Where all connections come together, whichever way they came in.
#[derive(Clone)]
struct Hall {
    router: Router,
    http: http1::Builder,
    places: Arc<Semaphore>,
    closing: watch::Sender<bool>,
}

impl Hall {
    async fn let_in_by(self, door: Door) {
        while let Ok(taken) = self.places.clone().acquire_owned().await {
            let (stream, peer) = accept(&door.listener).await;
            let place = Place { _taken: Arc::new(taken), look_again: door.look_again };
            let (hall, tls) = (self.clone(), door.tls.clone());
            tokio::spawn(async move {
                match tls {
                    None => hall.attend(stream, peer, place).await,
                    Some(Tls(tls)) => {
                        // Whoever does not get through shows nothing that could be answered.
                        if let Ok(Ok(stream)) = tokio::time::timeout(HEAD, tls.accept(stream)).await {
                            hall.attend(stream, peer, place).await;
                        }
                    }
                }
            });
        }
    }

    async fn attend(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: Peer,
        place: Place,
    ) {
        let router = TowerToHyperService::new(self.router.clone());
        let answering = service_fn(move |mut request: hyper::Request<Incoming>| {
            request.extensions_mut().insert(peer);
            request.extensions_mut().insert(place.clone());
            router.call(request)
        });
        let connection = self.http.serve_connection(TokioIo::new(stream), answering).with_upgrades();
        let mut connection = std::pin::pin!(connection);
        let mut closing = self.closing.subscribe();
        // A connection that breaks off is its other end's business.
        tokio::select! {
            _ = connection.as_mut() => {}
            () = async { drop(closing.wait_for(|closing| *closing).await) } => {
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
            }
        }
    }
}

/// A task that ends with whoever began it. What it leaves half-way is done again by the next server.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn accept(listener: &TcpListener) -> (TcpStream, Peer) {
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                // Answers are small and whole; waiting for more to send with them only delays them.
                let _ = stream.set_nodelay(true);
                bound(&stream);
                return (stream, Peer(from.ip()));
            }
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection");
                tokio::time::sleep(BREATH).await;
            }
        }
    }
}

/// A connection whose other end takes nothing for so long is given up: it holds a place that others wait for.
fn bound(stream: &TcpStream) {
    // Where it cannot be said, the kernel's own bounds hold, which are longer.
    let _ = rustix::net::sockopt::set_tcp_user_timeout(stream, TAKES_NOTHING_MS);
    let _ = rustix::net::sockopt::set_socket_keepalive(stream, true);
}
