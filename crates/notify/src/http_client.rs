//! An HTTP client for notifications and telemetry. It checks only the status of a response and follows no redirects,
//! since a signed request is meant for one receiver.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::{ClientConfig, RootCertStore};

/// Why a request was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum HttpSendError {
    #[error("the configured address is not an http or https address")]
    BadAddress(#[source] hyper::http::Error),
    #[error("could not set up TLS: {0}")]
    Tls(#[source] rustls::Error),
    #[error("could not connect: {0}")]
    Unreachable(String),
    #[error("it answered {status}")]
    Refused { status: u16 },
}

pub(crate) struct HttpClient {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl HttpClient {
    pub(crate) fn new() -> Result<Self, HttpSendError> {
        let mut roots = RootCertStore::empty();
        // Unreadable certificates are skipped; many hosts have some.
        let _ = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let tls = tls.map_err(HttpSendError::Tls)?;
        let tls = tls.with_root_certificates(roots).with_no_client_auth();
        let mut plain = HttpConnector::new();
        plain.enforce_http(false);
        let connector = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
        let connector = connector.enable_http1().wrap_connector(plain);
        // Requests are rare: the receiver would close an idle connection before the next one.
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
        Ok(Self { client })
    }

    pub(crate) async fn post(&self, request: Request<Full<Bytes>>) -> Result<String, HttpSendError> {
        let answer = self.client.request(request).await.map_err(|error| unreachable(&error))?;
        let status = answer.status();
        if !status.is_success() {
            return Err(HttpSendError::Refused { status: status.as_u16() });
        }
        Ok(format!("it answered {}", status.as_u16()))
    }
}

/// The error with its chain of causes; the outermost says only that it failed.
fn unreachable(error: &dyn std::error::Error) -> HttpSendError {
    let (mut text, mut source) = (error.to_string(), error.source());
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    HttpSendError::Unreachable(text)
}
