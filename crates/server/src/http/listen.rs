//! Connections: so many at once, heads that come in time, and an orderly end.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use super::{ServerConfig, assemble};
use crate::Service;
use crate::housekeeping::keep_house;

/// The other end of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) IpAddr);

/// How long the head of a request may take.
const HEAD: Duration = Duration::from_secs(15);
/// How long connections have to come to their end when the server does.
const DRAIN: Duration = Duration::from_secs(10);
const TAKES_NOTHING_MS: u32 = 120_000;
/// After a failed accept: too many open files, mostly, and those are given back by others.
const BREATH: Duration = Duration::from_millis(50);

/// Serves until `stopped`, and then lets what is under way come to its end. Streams are told to come back later.
pub async fn serve(
    service: Arc<Service>,
    listener: TcpListener,
    config: &ServerConfig,
    stopped: impl Future<Output = ()>,
) -> io::Result<()> {
    let router = assemble(service.clone(), config);
    let house = AbortOnDrop(tokio::spawn(keep_house(service.clone(), config.housekeeping)));
    let places = Arc::new(Semaphore::new(config.connections));
    let closing = watch::Sender::new(false);
    let mut head = http1::Builder::new();
    head.timer(TokioTimer::new()).header_read_timeout(HEAD);
    let mut stopped = std::pin::pin!(stopped);
    loop {
        let place = tokio::select! {
            () = &mut stopped => break,
            place = places.clone().acquire_owned() => place.map_err(io::Error::other)?,
        };
        let (stream, peer) = tokio::select! {
            () = &mut stopped => break,
            accepted = accept(&listener) => accepted,
        };
        let answering = TowerToHyperService::new(router.clone());
        let answering = service_fn(move |mut request: hyper::Request<Incoming>| {
            request.extensions_mut().insert(peer);
            answering.call(request)
        });
        let connection = head.serve_connection(TokioIo::new(stream), answering).with_upgrades();
        let mut closing = closing.subscribe();
        tokio::spawn(async move {
            let mut connection = std::pin::pin!(connection);
            // A connection that breaks off is its other end's business.
            tokio::select! {
                _ = connection.as_mut() => {}
                () = async { drop(closing.wait_for(|closing| *closing).await) } => {
                    connection.as_mut().graceful_shutdown();
                    let _ = connection.await;
                }
            }
            drop(place);
        });
    }
    drop((listener, house));
    service.close_streams();
    closing.send_replace(true);
    let all = u32::try_from(config.connections).unwrap_or(u32::MAX);
    if tokio::time::timeout(DRAIN, places.acquire_many(all)).await.is_err() {
        tracing::warn!("some connections did not come to their end in time");
    }
    Ok(())
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
