//! Starts cargo at the root of the repository.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The root of the repository, determined at run time, so that a copied checkout checks itself.
pub(crate) fn repository_root() -> PathBuf {
    let own_crate =
        std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| OsString::from(env!("CARGO_MANIFEST_DIR")));
    let own_crate = PathBuf::from(own_crate);
    own_crate.parent().map(Path::to_path_buf).unwrap_or(own_crate)
}

/// The cargo that started this program, so that a chosen toolchain stays chosen.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.args(arguments).current_dir(repository_root()).env("RUST_BACKTRACE", "1");
    command
}

/// Runs cargo with its output on our terminal. Whether it succeeded.
pub(crate) fn succeeds(arguments: &[&str]) -> Result<bool> {
    let status = command(arguments).status().with_context(|| could_not_run(arguments))?;
    Ok(status.success())
}

/// Cargo's output. A failure is an error.
pub(crate) fn output(arguments: &[&str]) -> Result<String> {
    let output =
        command(arguments).stderr(Stdio::inherit()).output().with_context(|| could_not_run(arguments))?;
    if !output.status.success() {
        bail!("`cargo {}` ended with {}", arguments.join(" "), output.status);
    }
    String::from_utf8(output.stdout).with_context(|| could_not_run(arguments))
}

fn could_not_run(arguments: &[&str]) -> String {
    format!("could not run `cargo {}`", arguments.join(" "))
}
