//! Brings an image in. Everything is made in a place of its own first, and becomes visible in one step.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use crate::bundle::{Bundle, BundleError, Confines, LayerFile};
use crate::feed::{Feed, FeedError, unpack_into};
use crate::pack::pack;
use crate::shelf::{Layer, ShelfError, Workplace};
use crate::unpack::{LAYER_IDS_FIRST, Unpacked};
use crate::{Digest, Image, ImageId, ImageName, Images, LayerId, Limits, NameError, Refusal, Settings};

#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("image `{name}` is there already with other content ({}); remove it first", id.short())]
    NameTaken { name: ImageName, id: ImageId },
    #[error("could not open `{}`", source_path.display())]
    Open { source_path: PathBuf, source: io::Error },
    #[error("`{}` is neither a file nor a directory", source_path.display())]
    NeitherFileNorDirectory { source_path: PathBuf },
    #[error("could not read {what}")]
    Read { what: String, source: io::Error },
    #[error("refused {what}")]
    Refused { what: String, source: Refusal },
    #[error("refused the image")]
    Bundle(#[source] BundleError),
    #[error("refused {what}: its content has the digest {found} instead of {wanted}")]
    Content { what: String, wanted: Digest, found: Digest },
    #[error("unpacking {what} took longer than {seconds} seconds")]
    TooSlow { what: String, seconds: u64 },
    #[error("could not start the unpacker")]
    Unpacker { source: io::Error },
    #[error("the unpacker of {what} ended without a word ({status}): out of memory or time, or worse")]
    UnpackerDied { what: String, status: String },
    #[error("could not keep the image")]
    Shelf(#[from] ShelfError),
}

pub(crate) fn import(images: &Images, source: &Path, name: &str) -> Result<Image, ImportError> {
    let name: ImageName = name.parse()?;
    let opened = |source_error| ImportError::Open { source_path: source.to_owned(), source: source_error };
    // A FIFO would hold us up.
    let kind = std::fs::metadata(source).map_err(opened)?;
    if !kind.is_file() && !kind.is_dir() {
        return Err(ImportError::NeitherFileNorDirectory { source_path: source.to_owned() });
    }
    let file = File::open(source).map_err(opened)?;
    images.shelf.sweep()?;
    let workplace = images.shelf.hold()?.workplace()?;
    let importing = Importing { images, workplace: &workplace };
    let imported = if kind.is_dir() { importing.directory(file.into()) } else { importing.archive(file) };
    let published = imported.and_then(|imported| importing.publish(&name, imported));
    // What was not taken from there is rubbish, whatever came of it; the next sweep would find it, too.
    let cleared = workplace.clear();
    let image = published?;
    cleared?;
    Ok(image)
}

struct Importing<'a> {
    images: &'a Images,
    workplace: &'a Workplace,
}

/// An image that is complete, and not visible yet.
struct Imported {
    id: ImageId,
    created: Option<String>,
    settings: Settings,
    /// Lowest first.
    layers: Vec<Ready>,
    /// Where layers that are not there come from again, if another process takes them away meanwhile.
    again: Option<(Confines, Bundle)>,
}

struct Ready {
    id: LayerId,
    known: Layer,
    /// Where it was unpacked, if it was not there already.
    fresh: Option<PathBuf>,
}

impl Importing<'_> {
    fn limits(&self) -> &Limits {
        &self.images.limits
    }

    fn directory(&self, directory: OwnedFd) -> Result<Imported, ImportError> {
        let read = |error: io::Error| ImportError::Read { what: "the directory".to_owned(), source: error };
        let confines = Confines::new(directory.try_clone().map_err(read)?);
        if let Some(bundle) = confines.bundle(self.limits().layers).map_err(ImportError::Bundle)? {
            return self.bundle(confines, bundle);
        }
        let depth = self.limits().depth;
        let layer =
            self.unpack("directory", "the directory", self.limits(), |feed| pack(&directory, depth, feed))?;
        Ok(plain(layer))
    }

    /// Unpacked first, and looked at then: what is in it decides whether it is a root or a bundle of layers.
    fn archive(&self, mut file: File) -> Result<Imported, ImportError> {
        let layer =
            self.unpack("archive", "the archive", self.limits(), |feed| io::copy(&mut file, feed).map(drop))?;
        let root = layer.fresh.as_ref().map(|layer| layer.join("root")).unwrap_or_default();
        let opened = File::open(&root);
        let opened = opened.map_err(|source| ImportError::Read { what: "the archive".to_owned(), source })?;
        let confines = Confines::new(opened.into());
        match confines.bundle(self.limits().layers).map_err(ImportError::Bundle)? {
            Some(bundle) => self.bundle(confines, bundle),
            None => Ok(plain(layer)),
        }
    }

    fn bundle(&self, confines: Confines, bundle: Bundle) -> Result<Imported, ImportError> {
        let layers = self.layers(&confines, &bundle, 0)?;
        let (id, created, settings) = (bundle.id.clone(), bundle.created.clone(), bundle.settings.clone());
        Ok(Imported { id, created, settings, layers, again: Some((confines, bundle)) })
    }

    /// All layers, lowest first. Those that are there already are not unpacked again.
    fn layers(
        &self,
        confines: &Confines,
        bundle: &Bundle,
        attempt: usize,
    ) -> Result<Vec<Ready>, ImportError> {
        let mut left = self.limits().total_bytes;
        let mut layers: Vec<Ready> = Vec::new();
        for (number, file) in bundle.layers.iter().enumerate() {
            let there = match &file.digest {
                Some(id) => self.images.shelf.layer(id)?.map(|known| (id.clone(), known)),
                None => None,
            };
            let ready = match there {
                Some((id, known)) => Ready { id, known, fresh: None },
                None => self.layer(confines, file, &format!("layer-{attempt}-{number}"), left)?,
            };
            if ready.known.content != file.content {
                let (wanted, found) = (file.content.clone(), ready.known.content);
                return Err(ImportError::Content { what: file.path.clone(), wanted, found });
            }
            left = left.checked_sub(ready.known.archive_bytes).ok_or_else(|| ImportError::Refused {
                what: "the image".to_owned(),
                source: Refusal::TooManyBytes { most: self.limits().total_bytes },
            })?;
            if ready.known.hides_all_below {
                layers.clear();
            }
            layers.push(ready);
        }
        Ok(layers)
    }

    fn layer(
        &self,
        confines: &Confines,
        file: &LayerFile,
        name: &str,
        left: u64,
    ) -> Result<Ready, ImportError> {
        let (mut opened, size) = confines.open(&file.path).map_err(ImportError::Bundle)?;
        if let Some(wanted) = file.size.filter(|wanted| *wanted != size) {
            let path = file.path.clone();
            return Err(ImportError::Bundle(BundleError::Size { path, wanted, found: size }));
        }
        let limits = Limits { total_bytes: left, ..self.limits().clone() };
        let ready = self.unpack(name, &format!("layer `{}`", file.path.escape_debug()), &limits, |feed| {
            io::copy(&mut opened, feed).map(drop)
        })?;
        match &file.digest {
            Some(wanted) if *wanted != ready.id => Err(ImportError::Bundle(BundleError::Digest {
                path: file.path.clone(),
                wanted: wanted.clone(),
                found: ready.id,
            })),
            _ => Ok(ready),
        }
    }

    /// Unpacks one archive into a layer of its own.
    fn unpack(
        &self,
        name: &str,
        what: &str,
        limits: &Limits,
        write: impl FnOnce(&mut Feed) -> io::Result<()>,
    ) -> Result<Ready, ImportError> {
        let (layer, root) = self.workplace.new_layer(name)?;
        give_away(&root).map_err(|source| ImportError::Unpacker { source })?;
        let unpacked = unpack_into(&root, &self.workplace.lock, &self.images.unpacker, limits, write);
        let (unpacked, id) = unpacked.map_err(|error| explain(error, what))?;
        let Unpacked { content, archive_bytes, bytes, left_out, hides_all_below } = unpacked;
        let known = Layer { content, archive_bytes, bytes, left_out, hides_all_below };
        self.workplace.complete(&layer, &known)?;
        Ok(Ready { id, known, fresh: Some(layer) })
    }

    fn publish(&self, name: &ImageName, mut imported: Imported) -> Result<Image, ImportError> {
        let mut attempt = 0;
        loop {
            let held = self.images.shelf.hold()?;
            match self.images.shelf.image(name)? {
                Some(there) if there.id == imported.id => return Ok(there),
                Some(there) => return Err(ImportError::NameTaken { name: name.clone(), id: there.id }),
                None => {}
            }
            let mut missing = false;
            for layer in &imported.layers {
                match &layer.fresh {
                    Some(fresh) => held.shelve(&layer.id, fresh)?,
                    None => missing |= self.images.shelf.layer(&layer.id)?.is_none(),
                }
            }
            match &imported.again {
                // Its last other image was removed while this one was made.
                Some((confines, bundle)) if missing => {
                    drop(held);
                    attempt += 1;
                    imported.layers = self.layers(confines, bundle, attempt)?;
                }
                _ => return Ok(held.name(&image(name, &imported), self.workplace)?),
            }
        }
    }
}

fn image(name: &ImageName, imported: &Imported) -> Image {
    let known = || imported.layers.iter().map(|layer| &layer.known);
    Image {
        name: name.clone(),
        id: imported.id.clone(),
        layers: imported.layers.iter().rev().map(|layer| layer.id.clone()).collect(),
        bytes: known().map(|known| known.bytes).sum(),
        created: imported.created.clone(),
        imported_ms: 0,
        settings: imported.settings.clone(),
        left_out: known().map(|known| known.left_out).sum(),
    }
}

/// An image of one layer and nothing else.
fn plain(layer: Ready) -> Imported {
    let id = layer.id.clone();
    Imported { id, created: None, settings: Settings::default(), layers: vec![layer], again: None }
}

/// As root the directory belongs to the root of the image.
fn give_away(root: &Path) -> io::Result<()> {
    if !rustix::process::getuid().is_root() {
        return Ok(());
    }
    std::os::unix::fs::chown(root, Some(LAYER_IDS_FIRST), Some(LAYER_IDS_FIRST))
}

fn explain(error: FeedError, what: &str) -> ImportError {
    let what = what.to_owned();
    match error {
        FeedError::Start { source } => ImportError::Unpacker { source },
        FeedError::Read { source } => ImportError::Read { what, source },
        FeedError::Refused { refusal } => ImportError::Refused { what, source: refusal },
        FeedError::TooSlow { seconds } => ImportError::TooSlow { what, seconds },
        FeedError::NoReport { status } => ImportError::UnpackerDied { what, status },
    }
}
