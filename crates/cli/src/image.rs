//! `pinfold image`: imports, lists and removes images.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use pinfold_api as api;
use pinfold_images::Images;
use pinfold_lifecycle::Timestamp;

use crate::GlobalOptions;
use crate::backend::{Backend, Server, Target, target, upload_stream};
use crate::data_directory::data_directory;
use crate::failure::{Failure, say};
use crate::file_stream::FileStream;
use crate::host::unpacker;
use crate::json_output::{self, rfc3339_utc};
use crate::progress::Progress;
use crate::table::{escape_control, format_table};

#[derive(clap::Subcommand)]
pub(crate) enum Image {
    /// Import a directory, a tar archive (plain, gzip or zstd), an OCI layout, or an archive from `docker save`
    Import {
        /// Path to import
        source: PathBuf,
        /// Name of the image
        name: String,
    },
    /// List images
    Ls,
    /// Remove images that no sandbox uses
    Rm {
        /// Names of the images
        #[arg(required = true)]
        names: Vec<String>,
    },
}

pub(crate) async fn run(global: &GlobalOptions, command: &Image) -> anyhow::Result<ExitCode> {
    match command {
        Image::Import { source, name } => print_imported(global, &import(global, source, name).await?)?,
        Image::Ls => {
            let backend = Backend::open(global).await?;
            let images = backend.images().await?;
            backend.close().await?;
            list(global, &images)?;
        }
        Image::Rm { names } => {
            let backend = Backend::open(global).await?;
            let mut removed = Vec::new();
            for name in names {
                removed.push(backend.remove_image(name).await?);
            }
            backend.close().await?;
            print_removed(global, &removed)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The images of the data directory.
pub(crate) fn image_store(global: &GlobalOptions) -> anyhow::Result<Images> {
    let directory = data_directory(global.data_dir.as_ref())?.join("images");
    Ok(Images::open(directory, unpacker()?)?)
}

/// Imports directly into a local data directory; uploads only to a remote server.
async fn import(global: &GlobalOptions, source: &Path, name: &str) -> anyhow::Result<api::Image> {
    let _waiting = Progress::of("importing");
    if let Target::Server(server) = target(global).await?
        && !server.serves_this_directory
    {
        return upload(&server, source, name).await;
    }
    let (store, source, name) = (image_store(global)?, source.to_owned(), name.to_owned());
    let image = tokio::task::spawn_blocking(move || store.import(&source, &name)).await??;
    Ok(api::Image {
        name: image.name.to_string(),
        id: image.id.to_string(),
        layers: image.layers.len() as u64,
        bytes: image.bytes,
        imported_at: rfc3339_utc(Timestamp(i64::try_from(image.imported_ms).unwrap_or(i64::MAX))),
        left_out: image.left_out,
    })
}

async fn upload(server: &Server, source: &Path, name: &str) -> anyhow::Result<api::Image> {
    let shown = || format!("could not read `{}`", source.display());
    let archive = File::open(source).with_context(shown)?;
    if !archive.metadata().with_context(shown)?.is_file() {
        let why = format!(
            "only an archive can be sent to the server at {}; create one with `tar -C {} -cf FILE .`",
            server.address,
            source.display()
        );
        return Err(Failure::BadField { field: "source", why }.into());
    }
    let sent =
        upload_stream(&mut FileStream(archive), |archive| server.client.import_image(name, archive)).await?;
    Ok(sent.map_err(|error| server.error(error))?)
}

fn print_imported(global: &GlobalOptions, image: &api::Image) -> anyhow::Result<()> {
    if global.json {
        return json_output::print(image);
    }
    anstream::println!("{}", image.id);
    if image.left_out > 0 {
        say(&format!("skipped {} devices, FIFOs or sockets", image.left_out));
    }
    Ok(())
}

fn list(global: &GlobalOptions, images: &[api::Image]) -> anyhow::Result<()> {
    if global.json {
        return json_output::print(&images);
    }
    let mut rows = vec![["NAME", "ID", "LAYERS", "MIB", "IMPORTED"].map(str::to_owned).to_vec()];
    rows.extend(images.iter().map(|it| {
        let short = it.id.chars().skip("sha256:".len()).take(12).collect();
        let mebibytes = it.bytes.div_ceil(1 << 20).to_string();
        vec![escape_control(&it.name), short, it.layers.to_string(), mebibytes, it.imported_at.clone()]
    }));
    anstream::print!("{}", format_table(&rows));
    Ok(())
}

fn print_removed(global: &GlobalOptions, removed: &[api::ImageRemoved]) -> anyhow::Result<()> {
    if global.json {
        return json_output::print(&removed);
    }
    for it in removed {
        let content = if it.last_name { "with its content" } else { "its content is kept under other names" };
        anstream::println!("{} is removed, {content}", escape_control(&it.name));
    }
    Ok(())
}
