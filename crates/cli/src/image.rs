//! `pinfold image`: what sandboxes can be made from, besides this host itself.

use std::path::PathBuf;
use std::process::ExitCode;

use pinfold_images::{ImageId, Images};
use pinfold_lifecycle::Timestamp;
use pinfold_store::{Filter, Row, SqliteStore};
use serde::Serialize;

use crate::Place;
use crate::documents::{self, moment};
use crate::failure::Failure;
use crate::find::all;
use crate::host::{data_directory, unpacker};
use crate::plane::{Target, target};
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

/// One image as lists show it.
#[derive(Serialize)]
struct ImageDocument {
    name: String,
    id: String,
    layers: usize,
    bytes: u64,
    imported_at: String,
    /// What the image holds and sandboxes do not get: devices, FIFOs, sockets.
    left_out: u64,
}

#[derive(Serialize)]
struct RemovedDocument {
    name: String,
    id: String,
    /// Its content went too, since no other name is left for it.
    last_name: bool,
}

pub(crate) async fn run(place: &Place, asked: &Image) -> anyhow::Result<ExitCode> {
    if let Target::Server(server) = target(place).await?
        && !server.is_of_this_place
    {
        return Err(Failure::Elsewhere { what: "image", url: server.address }.into());
    }
    let images = images(place)?;
    match asked {
        Image::Import { source, name } => import(place, images, source.clone(), name.clone()).await?,
        Image::Ls => list(place, &images)?,
        Image::Rm { names } => {
            let rows = rows(place).await?;
            remove(place, &images, names, &rows)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The images of the data directory.
pub(crate) fn images(place: &Place) -> anyhow::Result<Images> {
    let directory = data_directory(place.data_dir.as_ref())?.join("images");
    Ok(Images::open(directory, unpacker()?)?)
}

async fn import(place: &Place, images: Images, source: PathBuf, name: String) -> anyhow::Result<()> {
    let waiting = Progress::of("importing");
    let image = tokio::task::spawn_blocking(move || images.import(&source, &name)).await??;
    drop(waiting);
    let document = document(&image);
    if place.json {
        return documents::print(&document);
    }
    println!("{}", document.id);
    if document.left_out > 0 {
        eprintln!("pinfold: {} devices, FIFOs or sockets were left out", document.left_out);
    }
    Ok(())
}

fn document(image: &pinfold_images::Image) -> ImageDocument {
    ImageDocument {
        name: image.name.to_string(),
        id: image.id.to_string(),
        layers: image.layers.len(),
        bytes: image.bytes,
        imported_at: moment(Timestamp(i64::try_from(image.imported_ms).unwrap_or(i64::MAX))),
        left_out: image.left_out,
    }
}

fn list(place: &Place, images: &Images) -> anyhow::Result<()> {
    let documents: Vec<_> = images.list()?.iter().map(document).collect();
    if place.json {
        return documents::print(&documents);
    }
    let mut rows = vec![["NAME", "ID", "LAYERS", "MIB", "IMPORTED"].map(str::to_owned).to_vec()];
    rows.extend(documents.iter().map(|it| {
        let short = it.id.chars().skip("sha256:".len()).take(12).collect();
        let mebibytes = it.bytes.div_ceil(1 << 20).to_string();
        vec![harmless(&it.name), short, it.layers.to_string(), mebibytes, it.imported_at.clone()]
    }));
    print!("{}", lay_out(&rows));
    Ok(())
}

/// Everything whose body is not proven gone. Without a store there is none.
async fn rows(place: &Place) -> anyhow::Result<Vec<Row>> {
    let directory = data_directory(place.data_dir.as_ref())?.join("store");
    if !directory.exists() {
        return Ok(Vec::new());
    }
    all(&SqliteStore::open(&directory)?, Filter::Leased).await
}

fn remove(place: &Place, images: &Images, names: &[String], rows: &[Row]) -> anyhow::Result<()> {
    let mut removed = Vec::new();
    for name in names {
        let gone = images.remove(name, |id| holders(rows, id))?;
        removed.push(RemovedDocument {
            name: name.clone(),
            id: gone.id.to_string(),
            last_name: gone.last_name,
        });
    }
    if place.json {
        return documents::print(&removed);
    }
    for it in &removed {
        let content = if it.last_name { "with its content" } else { "its content has other names" };
        println!("{} is removed, {content}", harmless(&it.name));
    }
    Ok(())
}

/// Who may use it. A record that cannot be read may hold anything.
fn holders(rows: &[Row], id: &ImageId) -> Vec<String> {
    let id = id.to_string();
    let holds = |row: &&Row| match row {
        Row::Readable(stored) => stored.spec.image.as_ref() == Some(&id),
        Row::Unreadable(_) => true,
    };
    rows.iter().filter(holds).map(|row| row.id().to_string()).collect()
}
