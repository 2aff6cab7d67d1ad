//! Finds the server to use: the one named by `--url`, or one that runs on the data directory.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use pinfold_client::{Client, ServerFile};

use super::Server;
use crate::GlobalOptions;
use crate::data_directory::data_directory;
use crate::failure::Failure;

/// Where requests go.
pub(crate) enum Target {
    Server(Server),
    /// No server: this process does the work.
    Local,
}

/// The server's admin token, readable by users that may read the data directory.
const TOKEN_FILE: &str = "admin.token";
const TOKEN_VARIABLE: &str = "PINFOLD_TOKEN";
/// Names a PEM file of certificate authorities to use instead of this host's.
const CA_VARIABLE: &str = "PINFOLD_CA";
/// Timeout of the health check of a server found in the data directory.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) async fn target(global: &GlobalOptions) -> anyhow::Result<Target> {
    if global.local {
        return Ok(Target::Local);
    }
    if let Some(url) = &global.url {
        let token = std::env::var(TOKEN_VARIABLE).map_err(|_| Failure::NoToken { url: url.clone() })?;
        let authorities = std::env::var_os(CA_VARIABLE).map(PathBuf::from);
        let client = Client::with_authorities(url, &token, authorities.as_deref())?;
        return Ok(Target::Server(Server { client, address: url.clone(), serves_this_directory: false }));
    }
    let data = data_directory(global.data_dir.as_ref())?;
    match running_server(&data).await? {
        Some(server) => Ok(Target::Server(server)),
        None => Ok(Target::Local),
    }
}

/// A server of a data directory: the one in `server.json` if it answers, or else another one. Stale and unreadable files
/// count as none: commands work without a server.
async fn running_server(data: &Path) -> anyhow::Result<Option<Server>> {
    let mut alive = ServerFile::all(data).into_iter().filter(ServerFile::is_alive).peekable();
    if alive.peek().is_none() {
        return Ok(None);
    }
    let path = data.join(TOKEN_FILE);
    let token = std::fs::read_to_string(&path)
        .or_else(|error| std::env::var(TOKEN_VARIABLE).map_err(|_| error))
        .with_context(|| {
            format!(
                "could not read the server's token in `{}`; set {TOKEN_VARIABLE}, or use --local",
                path.display()
            )
        })?;
    for server_file in alive {
        let client = Client::new(&server_file.address, &token)?;
        if let Ok(true) = tokio::time::timeout(HEALTH_TIMEOUT, client.is_up()).await {
            return Ok(Some(Server { client, address: server_file.address, serves_this_directory: true }));
        }
    }
    Ok(None)
}
