//! Which server, if any: the one that is named, or the one that has left a sign of life in the data directory.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use pinfold_client::{Client, ServerFile};

use super::Server;
use crate::Place;
use crate::failure::Failure;
use crate::host::data_directory;

pub(crate) enum Target {
    Server(Server),
    /// No server: this very process.
    Here,
}

/// Where a server leaves the token of whoever can read its data directory.
const TOKEN_FILE: &str = "admin.token";
const TOKEN: &str = "PINFOLD_TOKEN";
/// Certificates of those who vouch for a server with TLS, in the place of this host's.
const AUTHORITIES: &str = "PINFOLD_CA";
/// How long a server that should be there may take to say that it is.
const SIGN_OF_LIFE: Duration = Duration::from_secs(2);

pub(crate) async fn target(place: &Place) -> anyhow::Result<Target> {
    if place.local {
        return Ok(Target::Here);
    }
    if let Some(url) = &place.url {
        let token = std::env::var(TOKEN).map_err(|_| Failure::NoToken { url: url.clone() })?;
        let authorities = std::env::var_os(AUTHORITIES).map(PathBuf::from);
        let client = Client::trusting(url, &token, authorities.as_deref())?;
        return Ok(Target::Server(Server { client, address: url.clone(), is_of_this_place: false }));
    }
    let data = data_directory(place.data_dir.as_ref())?;
    match living(&data).await? {
        Some(server) => Ok(Target::Server(server)),
        None => Ok(Target::Here),
    }
}

/// What a dead server left behind is not believed, nor what nobody can read: without a server all works, too.
async fn living(data: &Path) -> anyhow::Result<Option<Server>> {
    let Ok(Some(said)) = ServerFile::read(data) else { return Ok(None) };
    if !said.is_of_the_living() {
        return Ok(None);
    }
    let path = data.join(TOKEN_FILE);
    let token = std::fs::read_to_string(&path)
        .or_else(|error| std::env::var(TOKEN).map_err(|_| error))
        .with_context(|| {
            format!("could not read the server's token in `{}`; set {TOKEN}, or say --local", path.display())
        })?;
    let client = Client::new(&said.address, &token)?;
    match tokio::time::timeout(SIGN_OF_LIFE, client.is_up()).await {
        Ok(true) => Ok(Some(Server { client, address: said.address, is_of_this_place: true })),
        Ok(false) | Err(_) => Ok(None),
    }
}
