//! `pinfold serve`: sandboxes for whoever asks over HTTP, until this process is asked to end.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use pinfold_client::{ServerFile, process_started};
use pinfold_engine::OnExit;
use pinfold_server::http::{Door, Tls, serve};
use pinfold_server::service::moment;
use pinfold_server::{Host, HostConfig, Service};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::Place;
use crate::failure::Failure;
use crate::host::{config, data_directory};
use crate::settings::{self, Fate, LogFormat, ServerSettings};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// What is decided otherwise than is built in, instead of `pinfold.toml` in the data directory
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The address to listen on, by default `127.0.0.1:7463`
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Listen on an address that others can reach, although tokens then travel unencrypted
    #[arg(long)]
    without_tls: bool,
    /// The chain of certificates to show, in PEM; with it everything is encrypted
    #[arg(long, value_name = "FILE")]
    tls_certificate: Option<PathBuf>,
    /// The key of the certificate, in PEM
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// A name by which this server is reached, besides `localhost` and addresses; may be given again
    #[arg(long = "name", value_name = "NAME")]
    names: Vec<String>,
    /// What becomes of sandboxes when the server ends, by default `keep`
    #[arg(long, value_enum)]
    on_exit: Option<Fate>,
    /// How the log on standard error is written, by default `text`
    #[arg(long, value_enum)]
    log_format: Option<LogFormat>,
    /// What is logged, such as `warn` or `pinfold_engine=debug`, by default `info`
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
}

impl Options {
    /// An option goes before whatever the file and the environment say.
    fn decide(&self, server: &mut ServerSettings) {
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
        let either = |given: &Option<PathBuf>, set: &mut Option<PathBuf>| {
            if given.is_some() {
                set.clone_from(given);
            }
        };
        either(tls_certificate, &mut server.tls_certificate);
        either(tls_key, &mut server.tls_key);
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

/// How long sandboxes have to end before the server does.
const STOP_MS: u64 = 60_000;

pub(crate) async fn run(place: &Place, options: &Options) -> anyhow::Result<ExitCode> {
    let data = data_directory(place.data_dir.as_ref())?;
    let mut loaded = settings::load(&data, options.config.as_deref())?;
    options.decide(&mut loaded.settings.server);
    let server = &loaded.settings.server;
    check(server)?;
    begin_log(server)?;
    let (engine, rules) = (loaded.engine()?, loaded.rules()?);
    let stopped = asked_to_end()?;
    let (doors, address) = doors(server).await?;
    let host = HostConfig {
        keep: loaded.keep(),
        stale_after_ms: loaded.stale_after_ms(),
        ..config(&data, engine, loaded.objects())?
    };
    let service = Arc::new(Service::with(Host::begin(host).await?, rules));
    service.ensure_first_token().await?;
    let announced = Announced::write(&data, address, moment(service.now()))?;
    tracing::info!(%address, data = %data.display(), pid = std::process::id(), "serving");
    let served = serve(service.clone(), doors, &loaded.http(), stopped).await;
    drop(announced);
    tracing::info!("ending");
    let on_exit = match server.on_exit {
        Fate::Keep => OnExit::Keep,
        Fate::Stop => OnExit::Stop,
    };
    let left = service.shutdown(on_exit, STOP_MS).await?;
    served.context("could not go on serving")?;
    match left.first() {
        None => Ok(ExitCode::SUCCESS),
        Some(id) => Err(Failure::NotProvenGone { id: id.to_string() }.into()),
    }
}

/// Where connections come in, and where commands of this host find the server: with TLS they have a door of their own,
/// which others cannot reach.
async fn doors(server: &ServerSettings) -> anyhow::Result<(Vec<Door>, SocketAddr)> {
    let (listener, address) = listen_on(server.listen).await?;
    let Some((certificate, key)) = server.tls_certificate.as_ref().zip(server.tls_key.as_ref()) else {
        return Ok((vec![Door::plain(listener)], address));
    };
    let tls = Tls::load(certificate, key)?;
    let (own, own_address) = listen_on((Ipv4Addr::LOCALHOST, 0).into()).await?;
    tracing::info!(%address, "serving with TLS");
    Ok((vec![Door::with_tls(listener, tls), Door::plain(own)], own_address))
}

async fn listen_on(address: SocketAddr) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("could not listen on {address}"))?;
    let address = listener.local_addr().context("could not see the address that is listened on")?;
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
        "{} can be reached by others, and nothing would be encrypted; give --tls-certificate and --tls-key, put a \
         proxy with TLS in front of 127.0.0.1, or say --without-tls",
        server.listen
    );
    Err(Failure::BadField { field: "listen", why })
}

fn begin_log(server: &ServerSettings) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&server.log)
        .map_err(|error| Failure::BadField { field: "log", why: error.to_string() })?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let begun = match server.log_format {
        LogFormat::Text => log.with_ansi(false).try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
    begun.map_err(|error| anyhow::anyhow!("could not begin the log: {error}"))
}

/// Resolves with the first signal that asks this program to end.
fn asked_to_end() -> anyhow::Result<impl Future<Output = ()>> {
    let wait_for = |kind| signal(kind).context("could not wait for signals");
    let mut interrupted = wait_for(SignalKind::interrupt())?;
    let mut terminated = wait_for(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
        }
    })
}

/// Where commands find this server, for as long as it is there.
pub(crate) struct Announced {
    path: PathBuf,
}

impl Announced {
    pub(crate) fn write(data: &Path, address: SocketAddr, started_at: String) -> anyhow::Result<Self> {
        let path = data.join(ServerFile::NAME);
        let pid = std::process::id();
        let process_started = process_started(pid).context("could not see when this process began")?;
        let said = ServerFile { address: format!("http://{address}"), pid, process_started, started_at };
        let failed = || format!("could not write `{}`", path.display());
        let draft = path.with_extension(format!("draft.{}", said.pid));
        let file =
            std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft);
        file.and_then(|mut file| file.write_all(&serde_json::to_vec(&said)?)).with_context(failed)?;
        std::fs::rename(&draft, &path).with_context(failed)?;
        Ok(Self { path })
    }
}

impl Drop for Announced {
    /// Unless another server has come meanwhile and says so in the same place.
    fn drop(&mut self) {
        let data = self.path.parent().unwrap_or(Path::new("/"));
        if let Ok(Some(said)) = ServerFile::read(data)
            && said.pid == std::process::id()
        {
            // Commands see that the process is gone, too.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
