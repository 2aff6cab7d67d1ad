//! An OpenTelemetry collector that accepts and counts all messages.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

pub(super) struct Collector {
    address: SocketAddr,
    messages: Arc<AtomicU64>,
}

impl Collector {
    pub(super) async fn begin() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, messages) = (listener.local_addr()?, Arc::new(AtomicU64::new(0)));
        tokio::spawn(serve(listener, messages.clone()));
        Ok(Self { address, messages })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn messages(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }
}

async fn serve(listener: TcpListener, messages: Arc<AtomicU64>) {
    while let Ok((stream, _)) = listener.accept().await {
        let messages = messages.clone();
        let answering = service_fn(move |request: Request<Incoming>| {
            let messages = messages.clone();
            async move {
                drop(request.into_body().collect().await);
                messages.fetch_add(1, Ordering::Relaxed);
                Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
            }
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answering));
    }
}
