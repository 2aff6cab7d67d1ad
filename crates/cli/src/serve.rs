//! `pinfold serve`: serves the HTTP API until SIGINT or SIGTERM.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use pinfold_engine::OnExit;
use pinfold_host::start_host;
use pinfold_http::{Endpoint, Tls, serve};
use pinfold_service::rfc3339;
use pinfold_service::{HostConfig, Service};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::FilterExt as _;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::GlobalOptions;
use crate::announcement::ServerAnnouncement;
use crate::data_directory::data_directory;
use crate::failure::Failure;
use crate::host::{config, programs};
use crate::repeated_failures::RepeatedFailures;
use crate::settings::{self, ExitAction, LogFormat, ServerSettings};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Configuration file, instead of `pinfold.toml` in the data directory
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address to listen on, by default `127.0.0.1:7463`
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Allow an address that other hosts can reach without TLS; tokens are then sent unencrypted
    #[arg(long)]
    without_tls: bool,
    /// TLS certificate chain in PEM
    #[arg(long, value_name = "FILE")]
    tls_certificate: Option<PathBuf>,
    /// Private key of the certificate in PEM
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Host name of this server, besides `localhost` and IP addresses; may be repeated
    #[arg(long = "name", value_name = "NAME")]
    names: Vec<String>,
    /// What happens to sandboxes when the server ends, by default `keep`
    #[arg(long, value_enum)]
    on_exit: Option<ExitAction>,
    /// Format of the log on standard error, by default `text`
    #[arg(long, value_enum)]
    log_format: Option<LogFormat>,
    /// Log filter, such as `warn` or `pinfold_engine=debug`, by default `info`
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
}

impl Options {
    /// Options override the file and the environment.
    fn apply_to(&self, server: &mut ServerSettings) {
        let Self {
            config: _,
            listen,
            without_tls,
            tls_certificate,
            tls_key,
            names,
            on_exit,
            log_format,
            log,
        } = self;
        let override_path = |given: &Option<PathBuf>, set: &mut Option<PathBuf>| {
            if given.is_some() {
                set.clone_from(given);
            }
        };
        override_path(tls_certificate, &mut server.tls_certificate);
        override_path(tls_key, &mut server.tls_key);
        server.listen = listen.unwrap_or(server.listen);
        server.without_tls |= without_tls;
        server.names.extend(names.iter().cloned());
        server.on_exit = on_exit.unwrap_or(server.on_exit);
        server.log_format = log_format.unwrap_or(server.log_format);
        if let Some(log) = log {
            server.log.clone_from(log);
        }
    }
}

/// How long the server waits for pooled instances, and with `on_exit = "stop"` for sandboxes, to end.
const STOP_MS: u64 = 60_000;

/// Opens as many files as the system administrator allows: a shell's soft limit is often 1,024, and each sandbox and each
/// connection takes some. Where it cannot be raised, fewer keepers are watched.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let _stays_as_it_is = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

pub(crate) async fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<ExitCode> {
    let data = data_directory(global.data_dir.as_ref())?;
    let mut loaded = settings::load(&data, options.config.as_deref())?;
    options.apply_to(&mut loaded.settings.server);
    let server = &loaded.settings.server;
    check(server)?;
    init_logging(server)?;
    raise_open_files();
    let (engine, service_config) = (loaded.engine()?, loaded.service_config()?);
    let stopped = termination_signal()?;
    let (endpoints, address) = endpoints(server).await?;
    let host = HostConfig {
        keep: loaded.keep(),
        stale_after_ms: loaded.stale_after_ms(),
        ..config(&data, engine, loaded.objects())
    };
    let service = Arc::new(Service::with(start_host(host, programs()?).await?, service_config));
    service.ensure_first_token().await?;
    let announcement = ServerAnnouncement::write(&data, address, rfc3339(service.now()))?;
    tracing::info!(%address, data = %data.display(), pid = std::process::id(), "serving");
    let served = serve(service.clone(), endpoints, &loaded.http(), stopped).await;
    drop(announcement);
    tracing::info!("shutting down");
    let on_exit = match server.on_exit {
        ExitAction::Keep => OnExit::Keep,
        ExitAction::Stop => OnExit::Stop,
    };
    let left = service.shutdown(on_exit, STOP_MS).await?;
    for sandbox_id in &left {
        tracing::error!(%sandbox_id, "not proven gone within {STOP_MS} ms, the next server continues to stop it");
    }
    served.context("the HTTP server failed")?;
    match left.first() {
        None => Ok(ExitCode::SUCCESS),
        Some(id) => Err(Failure::NotProvenGone { id: id.to_string() }.into()),
    }
}

/// The listening endpoints, and the address for local commands. With TLS, local commands get a separate loopback
/// endpoint without TLS.
async fn endpoints(server: &ServerSettings) -> anyhow::Result<(Vec<Endpoint>, SocketAddr)> {
    let (listener, address) = listen_on(server.listen).await?;
    let Some((certificate, key)) = server.tls_certificate.as_ref().zip(server.tls_key.as_ref()) else {
        return Ok((vec![Endpoint::plain(listener)], address));
    };
    let tls = Tls::load(certificate, key)?;
    let (own, own_address) = listen_on((Ipv4Addr::LOCALHOST, 0).into()).await?;
    tracing::info!(%address, "serving with TLS");
    Ok((vec![Endpoint::with_tls(listener, tls), Endpoint::plain(own)], own_address))
}

async fn listen_on(address: SocketAddr) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("could not listen on {address}"))?;
    let address = listener.local_addr().context("could not read the listening address")?;
    Ok((listener, address))
}

fn check(server: &ServerSettings) -> Result<(), Failure> {
    if server.tls_certificate.is_some() != server.tls_key.is_some() {
        let why = "a certificate and its key go together; give --tls-certificate and --tls-key".to_owned();
        return Err(Failure::BadField { field: "tls_key", why });
    }
    if server.listen.ip().is_loopback() || server.without_tls || server.tls_key.is_some() {
        return Ok(());
    }
    let why = format!(
        "{} can be reached by other hosts without encryption; give --tls-certificate and --tls-key, put a \
         TLS proxy in front of 127.0.0.1, or use --without-tls",
        server.listen
    );
    Err(Failure::BadField { field: "listen", why })
}

fn init_logging(server: &ServerSettings) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&server.log)
        .map_err(|error| Failure::BadField { field: "log", why: error.to_string() })?;
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let log = match server.log_format {
        LogFormat::Text => log.with_ansi(false).boxed(),
        LogFormat::Json => log.json().flatten_event(true).boxed(),
    };
    let filter = filter.and(RepeatedFailures::default());
    let begun = tracing_subscriber::registry().with(log.with_filter(filter)).try_init();
    begun.map_err(|error| anyhow::anyhow!("could not set up logging: {error}"))
}

/// Resolves with the first signal that asks this program to end.
fn termination_signal() -> anyhow::Result<impl Future<Output = ()>> {
    let wait_for = |kind| signal(kind).context("could not install a signal handler");
    let mut interrupted = wait_for(SignalKind::interrupt())?;
    let mut terminated = wait_for(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
        }
    })
}
