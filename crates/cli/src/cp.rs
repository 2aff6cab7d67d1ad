//! `pinfold cp`: files and directories, into a sandbox and out of it.

mod inside;
mod into;
mod out;
mod outside;
mod sides;

use std::process::ExitCode;

use anyhow::Context;
use serde::Serialize;

use self::inside::{InSandbox, Inside};
use self::sides::{Here, Side};
use crate::failure::{Failure, say};
use crate::following::asked_to_end;
use crate::plane::Plane;
use crate::progress::Progress;
use crate::table::harmless;
use crate::{Place, documents, exit};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// What to copy: a path here, `SANDBOX:PATH` inside, or `-` for standard input
    #[arg(value_name = "FROM")]
    from: String,
    /// Where to: a path here, `SANDBOX:PATH` inside, or `-` for standard output. A directory that is there gets it
    /// under its own name
    #[arg(value_name = "TO")]
    to: String,
}

/// What a copy came to.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Copied {
    files: u64,
    directories: u64,
    links: u64,
    bytes: u64,
    /// Pipes, sockets and devices.
    left_out: Vec<String>,
}

pub(crate) async fn run(place: &Place, options: &Options) -> anyhow::Result<ExitCode> {
    let (from, to) = (Side::of(&options.from), Side::of(&options.to));
    if place.json && to == Side::Here(Here::Pipe) {
        return Err(bad("what is copied and the document would both be on standard output"));
    }
    let interrupted = asked_to_end(false)?;
    let plane = Plane::open(place).await?;
    let copying = Progress::of("copying");
    // What is dropped half-way leaves nothing half-copied under a file's own name.
    let copied = tokio::select! {
        copied = copy(&plane, &from, &to) => copied.map(Some),
        () = interrupted => Ok(None),
    };
    drop(copying);
    plane.close().await?;
    let Some(copied) = copied? else { return Ok(ExitCode::from(exit::INTERRUPTED)) };
    if place.json {
        documents::print(&copied)?;
    } else {
        copied.left_out.iter().for_each(|path| {
            say(&format!("`{}` is no file, directory or link; it was left out", harmless(path)));
        });
    }
    Ok(ExitCode::SUCCESS)
}

async fn copy(plane: &Plane, from: &Side, to: &Side) -> anyhow::Result<Copied> {
    match (from, to) {
        (Side::Inside { sandbox, path }, Side::Here(to)) => {
            let inside = InSandbox::of(plane, sandbox).await?;
            copy_out(&inside, path.as_bytes(), to).await
        }
        (Side::Here(from), Side::Inside { sandbox, path }) => {
            let inside = InSandbox::of(plane, sandbox).await?;
            copy_in(&inside, from, path.as_bytes()).await
        }
        (Side::Here(_), Side::Here(_)) => Err(bad("neither side is in a sandbox; write SANDBOX:PATH")),
        (Side::Inside { .. }, Side::Inside { .. }) => {
            Err(bad("both sides are in sandboxes; copy to a path here first, or through a pipe with `-`"))
        }
    }
}

async fn copy_out(inside: &dyn Inside, from: &[u8], to: &Here) -> anyhow::Result<Copied> {
    match to {
        Here::Pipe => out::to_pipe(inside, from).await,
        Here::Path(path) => out::to_path(inside, from, path).await,
    }
    .with_context(|| {
        format!("could not copy `{}` out of the sandbox", harmless(&String::from_utf8_lossy(from)))
    })
}

async fn copy_in(inside: &dyn Inside, from: &Here, to: &[u8]) -> anyhow::Result<Copied> {
    match from {
        Here::Pipe => {
            into::from_pipe(inside, to).await.context("could not copy standard input into the sandbox")
        }
        Here::Path(path) => into::from_path(inside, path, to)
            .await
            .with_context(|| format!("could not copy `{}` into the sandbox", path.display())),
    }
}

fn bad(why: &str) -> anyhow::Error {
    Failure::BadField { field: "cp", why: why.to_owned() }.into()
}
