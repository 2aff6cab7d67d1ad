//! Where sandboxes and records are kept: the directory that was given, or the default of the user.

use std::path::PathBuf;

use anyhow::Context;

/// The data directory that was given, or the default one.
pub(crate) fn data_directory(given: Option<&PathBuf>) -> anyhow::Result<PathBuf> {
    if let Some(given) = given {
        return std::path::absolute(given)
            .with_context(|| format!("could not make the path `{}` absolute", given.display()));
    }
    if rustix::process::getuid().is_root() {
        return Ok("/var/lib/pinfold".into());
    }
    let home = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let data = home("XDG_DATA_HOME").or_else(|| Some(home("HOME")?.join(".local/share")));
    Ok(data.context("neither HOME nor XDG_DATA_HOME is set; use --data-dir")?.join("pinfold"))
}
