//! `pinfold cp`: copies files and directories into a sandbox or out of it.

mod into_sandbox;
mod out_of_sandbox;
mod paths;
mod sandbox_files;
mod target_directory;

use std::process::ExitCode;

use anyhow::Context;
use serde::Serialize;

use self::paths::{CopyPath, HostPath};
use self::sandbox_files::{LiveSandbox, SandboxFiles};
use crate::backend::Backend;
use crate::failure::{Failure, say};
use crate::follow::termination_signal;
use crate::progress::Progress;
use crate::table::escape_control;
use crate::{GlobalOptions, exit, json_output};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Source: a local path, `SANDBOX:PATH`, or `-` for standard input
    #[arg(value_name = "FROM")]
    from: String,
    /// Destination: a local path, `SANDBOX:PATH`, or `-` for standard output. If it is an existing directory, the copy
    /// is placed in it under its own name
    #[arg(value_name = "TO")]
    to: String,
}

/// What was copied.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct CopySummary {
    files: u64,
    directories: u64,
    links: u64,
    bytes: u64,
    /// Paths of pipes, sockets and devices, which are not copied.
    left_out: Vec<String>,
}

pub(crate) async fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<ExitCode> {
    let (from, to) = (CopyPath::parse(&options.from), CopyPath::parse(&options.to));
    if global.json && to == CopyPath::Host(HostPath::Stdio) {
        return Err(bad_arguments(
            "with --json, standard output holds the JSON document; copy to a file instead of `-`",
        ));
    }
    let interrupted = termination_signal(false)?;
    let backend = Backend::open(global).await?;
    let copying = Progress::of("copying");
    // An interrupted copy leaves no partial file: files are renamed into place when complete.
    let summary = tokio::select! {
        summary = copy(&backend, &from, &to) => summary.map(Some),
        () = interrupted => Ok(None),
    };
    drop(copying);
    backend.close().await?;
    let Some(summary) = summary? else { return Ok(ExitCode::from(exit::INTERRUPTED)) };
    if global.json {
        json_output::print(&summary)?;
    } else {
        summary.left_out.iter().for_each(|path| {
            say(&format!("skipped `{}`: not a file, directory or link", escape_control(path)));
        });
    }
    Ok(ExitCode::SUCCESS)
}

async fn copy(backend: &Backend, from: &CopyPath, to: &CopyPath) -> anyhow::Result<CopySummary> {
    match (from, to) {
        (CopyPath::Sandbox { sandbox, path }, CopyPath::Host(to)) => {
            let files = LiveSandbox::of(backend, sandbox).await?;
            copy_out(&files, path.as_bytes(), to).await
        }
        (CopyPath::Host(from), CopyPath::Sandbox { sandbox, path }) => {
            let files = LiveSandbox::of(backend, sandbox).await?;
            copy_in(&files, from, path.as_bytes()).await
        }
        (CopyPath::Host(_), CopyPath::Host(_)) => {
            Err(bad_arguments("neither path is in a sandbox; write SANDBOX:PATH"))
        }
        (CopyPath::Sandbox { .. }, CopyPath::Sandbox { .. }) => Err(bad_arguments(
            "both paths are in sandboxes; copy to a local path first, or through a pipe with `-`",
        )),
    }
}

async fn copy_out(files: &dyn SandboxFiles, from: &[u8], to: &HostPath) -> anyhow::Result<CopySummary> {
    match to {
        HostPath::Stdio => out_of_sandbox::to_stdout(files, from).await,
        HostPath::Path(path) => out_of_sandbox::to_path(files, from, path).await,
    }
    .with_context(|| {
        format!("could not copy `{}` out of the sandbox", escape_control(&String::from_utf8_lossy(from)))
    })
}

async fn copy_in(files: &dyn SandboxFiles, from: &HostPath, to: &[u8]) -> anyhow::Result<CopySummary> {
    match from {
        HostPath::Stdio => into_sandbox::from_stdin(files, to)
            .await
            .context("could not copy standard input into the sandbox"),
        HostPath::Path(path) => into_sandbox::from_path(files, path, to)
            .await
            .with_context(|| format!("could not copy `{}` into the sandbox", path.display())),
    }
}

fn bad_arguments(why: &str) -> anyhow::Error {
    Failure::BadField { field: "cp", why: why.to_owned() }.into()
}
