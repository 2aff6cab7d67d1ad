//! `pinfold image`: what sandboxes can be made from, besides this host itself.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use pinfold_api as api;
use pinfold_images::Images;
use pinfold_lifecycle::Timestamp;

use crate::Place;
use crate::documents::{self, moment};
use crate::failure::{Failure, say};
use crate::host::{data_directory, unpacker};
use crate::pieces::OfFile;
use crate::plane::{Plane, Server, Target, send_pieces, target};
use crate::progress::Progress;
use crate::table::{harmless, lay_out};

#[derive(clap::Subcommand)]
pub(crate) enum Image {
    /// Import a directory, a tar archive (plain, gzip or zstd), an OCI layout or what `docker save` wrote
    Import {
        /// What to import
        source: PathBuf,
        /// The name to give it
        name: String,
    },
    /// List the images there are
    Ls,
    /// Remove images that no sandbox uses
    Rm {
        /// Their names
        #[arg(required = true)]
        names: Vec<String>,
    },
}

pub(crate) async fn run(place: &Place, asked: &Image) -> anyhow::Result<ExitCode> {
    match asked {
        Image::Import { source, name } => tell_of_import(place, &import(place, source, name).await?)?,
        Image::Ls => {
            let plane = Plane::open(place).await?;
            let images = plane.images().await?;
            plane.close().await?;
            list(place, &images)?;
        }
        Image::Rm { names } => {
            let plane = Plane::open(place).await?;
            let mut removed = Vec::new();
            for name in names {
                removed.push(plane.remove_image(name).await?);
            }
            plane.close().await?;
            tell_of_removed(place, &removed)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The images of the data directory.
pub(crate) fn images(place: &Place) -> anyhow::Result<Images> {
    let directory = data_directory(place.data_dir.as_ref())?.join("images");
    Ok(Images::open(directory, unpacker()?)?)
}

/// Where the data directory is at hand, nothing is sent to anybody.
async fn import(place: &Place, source: &Path, name: &str) -> anyhow::Result<api::Image> {
    let _waiting = Progress::of("importing");
    if let Target::Server(server) = target(place).await?
        && !server.is_of_this_place
    {
        return send(&server, source, name).await;
    }
    let (images, source, name) = (images(place)?, source.to_owned(), name.to_owned());
    let image = tokio::task::spawn_blocking(move || images.import(&source, &name)).await??;
    Ok(api::Image {
        name: image.name.to_string(),
        id: image.id.to_string(),
        layers: image.layers.len() as u64,
        bytes: image.bytes,
        imported_at: moment(Timestamp(i64::try_from(image.imported_ms).unwrap_or(i64::MAX))),
        left_out: image.left_out,
    })
}

async fn send(server: &Server, source: &Path, name: &str) -> anyhow::Result<api::Image> {
    let shown = || format!("could not read `{}`", source.display());
    let archive = File::open(source).with_context(shown)?;
    if !archive.metadata().with_context(shown)?.is_file() {
        let why = format!(
            "only an archive can be sent to the server at {}; `tar -C {} -cf FILE .` makes one",
            server.address,
            source.display()
        );
        return Err(Failure::BadField { field: "source", why }.into());
    }
    let sent = send_pieces(&mut OfFile(archive), |archive| server.client.import_image(name, archive)).await?;
    Ok(sent.map_err(|error| server.judge(error))?)
}

fn tell_of_import(place: &Place, image: &api::Image) -> anyhow::Result<()> {
    if place.json {
        return documents::print(image);
    }
    anstream::println!("{}", image.id);
    if image.left_out > 0 {
        say(&format!("{} devices, FIFOs or sockets were left out", image.left_out));
    }
    Ok(())
}

fn list(place: &Place, images: &[api::Image]) -> anyhow::Result<()> {
    if place.json {
        return documents::print(&images);
    }
    let mut rows = vec![["NAME", "ID", "LAYERS", "MIB", "IMPORTED"].map(str::to_owned).to_vec()];
    rows.extend(images.iter().map(|it| {
        let short = it.id.chars().skip("sha256:".len()).take(12).collect();
        let mebibytes = it.bytes.div_ceil(1 << 20).to_string();
        vec![harmless(&it.name), short, it.layers.to_string(), mebibytes, it.imported_at.clone()]
    }));
    anstream::print!("{}", lay_out(&rows));
    Ok(())
}

fn tell_of_removed(place: &Place, removed: &[api::ImageRemoved]) -> anyhow::Result<()> {
    if place.json {
        return documents::print(&removed);
    }
    for it in removed {
        let content = if it.last_name { "with its content" } else { "its content has other names" };
        anstream::println!("{} is removed, {content}", harmless(&it.name));
    }
    Ok(())
}
