//! Where images are kept: layers by their digest, a record for each name, and what is unfinished.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, chmodat, openat, syncfs};
use rustix::process::getpid;
use serde::{Deserialize, Serialize};

use crate::{Image, ImageName, LayerId};

#[derive(Debug, thiserror::Error)]
pub enum ShelfError {
    #[error("could not {doing} `{}`", path.display())]
    Step { doing: &'static str, path: PathBuf, source: io::Error },
    #[error("`{}` is damaged: it is not the record of an image", path.display())]
    Damaged { path: PathBuf, source: serde_json::Error },
}

trait Doing<T> {
    fn doing(self, doing: &'static str, path: &Path) -> Result<T, ShelfError>;
}

impl<T, E: Into<io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, doing: &'static str, path: &Path) -> Result<T, ShelfError> {
        self.map_err(|error| ShelfError::Step { doing, path: path.to_owned(), source: error.into() })
    }
}

/// ```text
/// lock                      held while what is visible changes
/// layers/<digest>/root      a layer's files
/// layers/<digest>/layer.json
/// names/<name>.json         an image; it appears and goes in one step
/// unfinished/<number>/lock  held by whoever is at work there; if nobody is, it is rubbish
/// ```
///
/// While nobody holds `lock`, a layer that no image names is rubbish, too.
#[derive(Debug, Clone)]
pub(crate) struct Shelf {
    directory: PathBuf,
}

/// What is known about a layer besides its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Layer {
    /// Of the decompressed archive, as images' configurations name it.
    pub(crate) content: crate::Digest,
    pub(crate) archive_bytes: u64,
    pub(crate) bytes: u64,
    pub(crate) left_out: u64,
    pub(crate) hides_all_below: bool,
}

/// Held while what is visible changes.
pub(crate) struct Held<'a> {
    shelf: &'a Shelf,
    _lock: File,
}

/// A directory of one's own, which is rubbish as soon as its lock is let go.
pub(crate) struct Workplace {
    pub(crate) directory: PathBuf,
    pub(crate) lock: File,
}

const ROOT: &str = "root";
const RECORD: &str = "layer.json";
const LOCK: &str = "lock";

impl Shelf {
    pub(crate) fn open(directory: PathBuf) -> Result<Self, ShelfError> {
        let shelf = Self { directory };
        for path in [shelf.directory.clone(), shelf.layers(), shelf.names(), shelf.unfinished()] {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&path);
            made.doing("make", &path)?;
        }
        Ok(shelf)
    }

    fn layers(&self) -> PathBuf {
        self.directory.join("layers")
    }

    fn names(&self) -> PathBuf {
        self.directory.join("names")
    }

    fn unfinished(&self) -> PathBuf {
        self.directory.join("unfinished")
    }

    pub(crate) fn layer_root(&self, layer: &LayerId) -> PathBuf {
        self.layers().join(layer.hex()).join(ROOT)
    }

    pub(crate) fn layer(&self, layer: &LayerId) -> Result<Option<Layer>, ShelfError> {
        let path = self.layers().join(layer.hex()).join(RECORD);
        match fs::read(&path) {
            Ok(text) => {
                serde_json::from_slice(&text).map(Some).map_err(|source| ShelfError::Damaged { path, source })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).doing("read", &path),
        }
    }

    /// Every image, by name. One that goes meanwhile may be left out.
    pub(crate) fn images(&self) -> Result<Vec<Image>, ShelfError> {
        let directory = self.names();
        let mut images = Vec::new();
        for entry in fs::read_dir(&directory).doing("read", &directory)? {
            let path = entry.doing("read", &directory)?.path();
            images.extend(self.read_image(&path)?);
        }
        images.sort_by(|one: &Image, other| one.name.cmp(&other.name));
        Ok(images)
    }

    pub(crate) fn image(&self, name: &ImageName) -> Result<Option<Image>, ShelfError> {
        self.read_image(&self.names().join(name.file_name()))
    }

    fn read_image(&self, path: &Path) -> Result<Option<Image>, ShelfError> {
        let read = || -> io::Result<(Vec<u8>, u64)> {
            let found = fs::metadata(path)?;
            let seconds = found.mtime().max(0).unsigned_abs() * 1000;
            let imported_ms = seconds + found.mtime_nsec().max(0).unsigned_abs() / 1_000_000;
            Ok((fs::read(path)?, imported_ms))
        };
        let (text, imported_ms) = match read() {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).doing("read", path),
        };
        let damaged = |source| ShelfError::Damaged { path: path.to_owned(), source };
        let image: Image = serde_json::from_slice(&text).map_err(damaged)?;
        Ok(Some(Image { imported_ms, ..image }))
    }

    /// Waits until nobody else changes what is visible.
    pub(crate) fn hold(&self) -> Result<Held<'_>, ShelfError> {
        let path = self.directory.join(LOCK);
        let lock = OpenOptions::new().create(true).append(true).open(&path).doing("open", &path)?;
        lock.lock().doing("lock", &path)?;
        Ok(Held { shelf: self, _lock: lock })
    }

    /// Removes what nobody works on any more and no image names.
    pub(crate) fn sweep(&self) -> Result<(), ShelfError> {
        let (abandoned, unnamed) = {
            let held = self.hold()?;
            (held.abandoned()?, held.unnamed_layers()?)
        };
        // The locks are still held, so that nobody else clears the same away.
        abandoned.into_iter().chain(unnamed).try_for_each(Workplace::clear)
    }
}

impl Held<'_> {
    /// A fresh directory under `unfinished`.
    pub(crate) fn workplace(&self) -> Result<Workplace, ShelfError> {
        let above = self.shelf.unfinished();
        let own = getpid().as_raw_nonzero();
        let mut number = 0u32;
        let directory = loop {
            let path = above.join(format!("{own}-{number}"));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => break path,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(error).doing("make", &path),
            }
        };
        let path = directory.join(LOCK);
        let lock = OpenOptions::new().create_new(true).append(true).open(&path).doing("make", &path)?;
        lock.lock().doing("lock", &path)?;
        Ok(Workplace { directory, lock })
    }

    fn abandoned(&self) -> Result<Vec<Workplace>, ShelfError> {
        let above = self.shelf.unfinished();
        let mut abandoned = Vec::new();
        for entry in fs::read_dir(&above).doing("read", &above)? {
            let directory = entry.doing("read", &above)?.path();
            let path = directory.join(LOCK);
            let lock = match OpenOptions::new().append(true).open(&path) {
                Ok(lock) => lock,
                // Not begun, or cleared away but for this: it is empty, or somebody else sees to it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let _ = fs::remove_dir(&directory);
                    continue;
                }
                Err(error) => return Err(error).doing("open", &path),
            };
            match lock.try_lock() {
                Ok(()) => abandoned.push(Workplace { directory, lock }),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error).doing("lock", &path),
            }
        }
        Ok(abandoned)
    }

    /// Takes the layers that no image names out of sight, to be cleared away.
    pub(crate) fn unnamed_layers(&self) -> Result<Option<Workplace>, ShelfError> {
        let images = self.shelf.images()?;
        let named: BTreeSet<&str> = images.iter().flat_map(|image| &image.layers).map(LayerId::hex).collect();
        let layers = self.shelf.layers();
        let mut rubbish = None;
        for entry in fs::read_dir(&layers).doing("read", &layers)? {
            let entry = entry.doing("read", &layers)?;
            if entry.file_name().to_str().is_some_and(|name| named.contains(name)) {
                continue;
            }
            let place = match rubbish.take() {
                Some(place) => place,
                None => self.workplace()?,
            };
            let moved = fs::rename(entry.path(), place.directory.join(entry.file_name()));
            moved.doing("take away", &entry.path())?;
            rubbish = Some(place);
        }
        Ok(rubbish)
    }

    /// Makes a layer visible that is complete in `from`, unless it is there already.
    pub(crate) fn shelve(&self, layer: &LayerId, from: &Path) -> Result<(), ShelfError> {
        let to = self.shelf.layers().join(layer.hex());
        if to.exists() {
            return Ok(());
        }
        fs::rename(from, &to).doing("put in place", &to)?;
        sync(&self.shelf.layers())
    }

    /// Makes an image visible. Its record is written in `workplace` first.
    pub(crate) fn name(&self, image: &Image, workplace: &Workplace) -> Result<Image, ShelfError> {
        let written = workplace.directory.join("image.json");
        let to = self.shelf.names().join(image.name.file_name());
        write_durably(&written, image)?;
        fs::rename(&written, &to).doing("put in place", &to)?;
        sync(&self.shelf.names())?;
        Ok(self.shelf.image(&image.name)?.unwrap_or_else(|| image.clone()))
    }

    pub(crate) fn forget(&self, name: &ImageName) -> Result<(), ShelfError> {
        let path = self.shelf.names().join(name.file_name());
        fs::remove_file(&path).doing("remove", &path)?;
        sync(&self.shelf.names())
    }
}

impl Workplace {
    /// An empty layer, and where its files belong.
    pub(crate) fn new_layer(&self, name: &str) -> Result<(PathBuf, PathBuf), ShelfError> {
        let layer = self.directory.join(name);
        let root = layer.join(ROOT);
        fs::create_dir(&layer).doing("make", &layer)?;
        fs::create_dir(&root).doing("make", &root)?;
        Ok((layer, root))
    }

    /// Notes what is known about a layer, and brings all of it to the disk.
    pub(crate) fn complete(&self, layer: &Path, known: &Layer) -> Result<(), ShelfError> {
        write_durably(&layer.join(RECORD), known)?;
        let directory = File::open(layer).doing("open", layer)?;
        syncfs(&directory).doing("sync", layer)
    }

    /// Removes it, the lock last.
    pub(crate) fn clear(self) -> Result<(), ShelfError> {
        let lock = self.directory.join(LOCK);
        let clear = || -> io::Result<()> {
            for entry in fs::read_dir(&self.directory)? {
                let path = entry?.path();
                if path != lock {
                    gone(clear_tree(&path))?;
                }
            }
            gone(fs::remove_file(&lock))?;
            fs::remove_dir(&self.directory)
        };
        gone(clear()).doing("clear", &self.directory)
    }
}

/// Somebody else may have been faster.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Removes a file or a tree whose directories may not even let their owner in.
fn clear_tree(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.is_dir() {
        return fs::remove_file(path);
    }
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(CWD, path.as_os_str().as_bytes())?;
            fs::remove_dir_all(path)
        }
        other => other,
    }
}

/// By descriptors, since whole paths may be longer than the kernel takes.
fn open_up(parent: impl AsFd, name: &[u8]) -> io::Result<()> {
    chmodat(&parent, name, Mode::RWXU, AtFlags::empty())?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = openat(&parent, name, flags, Mode::empty())?;
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if entry.file_type() == FileType::Directory && !matches!(name, b"." | b"..") {
            open_up(&directory, name)?;
        }
    }
    Ok(())
}

fn write_durably(path: &Path, what: &impl Serialize) -> Result<(), ShelfError> {
    let write = || -> io::Result<()> {
        let mut file = File::create(path)?;
        file.write_all(&serde_json::to_vec_pretty(what)?)?;
        file.sync_all()
    };
    write().doing("write", path)
}

fn sync(directory: &Path) -> Result<(), ShelfError> {
    File::open(directory).and_then(|directory| directory.sync_all()).doing("sync", directory)
}
