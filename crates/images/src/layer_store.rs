//! Image store on disk: layers by digest, a record per image name, and staging directories of running imports.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use pinfold_private_files::options as private_options;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, chmodat, openat, syncfs};
use rustix::process::getpid;
use serde::{Deserialize, Serialize};

use crate::{Image, ImageName, LayerId};

#[derive(Debug, thiserror::Error)]
pub enum LayerStoreError {
    #[error("could not {doing} `{}`", path.display())]
    Step { doing: &'static str, path: PathBuf, source: io::Error },
    #[error("`{}` is damaged: it is not a valid record", path.display())]
    Damaged { path: PathBuf, source: serde_json::Error },
}

trait Doing<T> {
    fn doing(self, doing: &'static str, path: &Path) -> Result<T, LayerStoreError>;
}

impl<T, E: Into<io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, doing: &'static str, path: &Path) -> Result<T, LayerStoreError> {
        self.map_err(|error| LayerStoreError::Step { doing, path: path.to_owned(), source: error.into() })
    }
}

/// The store's directory.
///
/// ```text
/// lock                      flock held while layers or names change
/// layers/<digest>/root      a layer's files
/// layers/<digest>/layer.json
/// names/<name>.json         an image record; created and removed atomically
/// unfinished/<number>/lock  flock held by the import that stages there; without a holder the directory is garbage
/// ```
///
/// While `lock` is free, a layer that no image record names is garbage too.
#[derive(Debug, Clone)]
pub(crate) struct LayerStore {
    directory: PathBuf,
}

/// Metadata of a layer, stored beside its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LayerRecord {
    /// Digest of the decompressed archive (the OCI `diff_id`).
    pub(crate) content: crate::Digest,
    pub(crate) archive_bytes: u64,
    pub(crate) bytes: u64,
    pub(crate) left_out: u64,
    pub(crate) hides_all_below: bool,
}

/// The store with its lock held. All changes to layers and names go through it.
pub(crate) struct LockedStore<'a> {
    store: &'a LayerStore,
    _lock: File,
}

/// A staging directory of one import. Once its lock is released it is garbage.
pub(crate) struct StagingDirectory {
    pub(crate) directory: PathBuf,
    pub(crate) lock: File,
}

const ROOT: &str = "root";
const RECORD: &str = "layer.json";
const LOCK: &str = "lock";

impl LayerStore {
    pub(crate) fn open(directory: PathBuf) -> Result<Self, LayerStoreError> {
        let store = Self { directory };
        for path in [store.directory.clone(), store.layers(), store.names(), store.unfinished()] {
            pinfold_private_files::make_directory(&path).doing("make", &path)?;
        }
        Ok(store)
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

    pub(crate) fn layer(&self, layer: &LayerId) -> Result<Option<LayerRecord>, LayerStoreError> {
        let path = self.layers().join(layer.hex()).join(RECORD);
        match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text)
                .map(Some)
                .map_err(|source| LayerStoreError::Damaged { path, source }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).doing("read", &path),
        }
    }

    /// All images, sorted by name. Images removed during the read may be missing.
    pub(crate) fn images(&self) -> Result<Vec<Image>, LayerStoreError> {
        let directory = self.names();
        let mut images = Vec::new();
        for entry in fs::read_dir(&directory).doing("read", &directory)? {
            let path = entry.doing("read", &directory)?.path();
            images.extend(self.read_image(&path)?);
        }
        images.sort_by(|one: &Image, other| one.name.cmp(&other.name));
        Ok(images)
    }

    pub(crate) fn image(&self, name: &ImageName) -> Result<Option<Image>, LayerStoreError> {
        self.read_image(&self.names().join(name.file_name()))
    }

    fn read_image(&self, path: &Path) -> Result<Option<Image>, LayerStoreError> {
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
        let damaged = |source| LayerStoreError::Damaged { path: path.to_owned(), source };
        let image: Image = serde_json::from_slice(&text).map_err(damaged)?;
        Ok(Some(Image { imported_ms, ..image }))
    }

    /// Takes the store's lock, and waits for it if another process has it.
    pub(crate) fn lock(&self) -> Result<LockedStore<'_>, LayerStoreError> {
        let path = self.directory.join(LOCK);
        let lock = private_options().create(true).append(true).open(&path).doing("open", &path)?;
        lock.lock().doing("lock", &path)?;
        Ok(LockedStore { store: self, _lock: lock })
    }

    /// Deletes abandoned staging directories and unreferenced layers.
    pub(crate) fn sweep(&self) -> Result<(), LayerStoreError> {
        let (abandoned, unnamed) = {
            let locked = self.lock()?;
            (locked.abandoned_staging()?, locked.take_unreferenced_layers()?)
        };
        // The staging locks stay held during the deletion, so that no other process deletes the same directories.
        abandoned.into_iter().chain(unnamed).try_for_each(StagingDirectory::delete)
    }
}

impl LockedStore<'_> {
    /// Makes a new directory under `unfinished` and locks it.
    pub(crate) fn new_staging(&self) -> Result<StagingDirectory, LayerStoreError> {
        let above = self.store.unfinished();
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
        let lock = private_options().create_new(true).append(true).open(&path).doing("make", &path)?;
        lock.lock().doing("lock", &path)?;
        Ok(StagingDirectory { directory, lock })
    }

    fn abandoned_staging(&self) -> Result<Vec<StagingDirectory>, LayerStoreError> {
        let above = self.store.unfinished();
        let mut abandoned = Vec::new();
        for entry in fs::read_dir(&above).doing("read", &above)? {
            let directory = entry.doing("read", &above)?.path();
            let path = directory.join(LOCK);
            let lock = match OpenOptions::new().append(true).open(&path) {
                Ok(lock) => lock,
                // A crash before the lock file was made, or after it was deleted: the directory is empty.
                // If it is not, another process is deleting it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let _ = fs::remove_dir(&directory);
                    continue;
                }
                Err(error) => return Err(error).doing("open", &path),
            };
            match lock.try_lock() {
                Ok(()) => abandoned.push(StagingDirectory { directory, lock }),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error).doing("lock", &path),
            }
        }
        Ok(abandoned)
    }

    /// Moves the layers that no image names into a staging directory, for deletion without the lock.
    pub(crate) fn take_unreferenced_layers(&self) -> Result<Option<StagingDirectory>, LayerStoreError> {
        let images = self.store.images()?;
        let named: BTreeSet<&str> = images.iter().flat_map(|image| &image.layers).map(LayerId::hex).collect();
        let layers = self.store.layers();
        let mut garbage = None;
        for entry in fs::read_dir(&layers).doing("read", &layers)? {
            let entry = entry.doing("read", &layers)?;
            if entry.file_name().to_str().is_some_and(|name| named.contains(name)) {
                continue;
            }
            let place = match garbage.take() {
                Some(place) => place,
                None => self.new_staging()?,
            };
            let moved = fs::rename(entry.path(), place.directory.join(entry.file_name()));
            moved.doing("move away", &entry.path())?;
            garbage = Some(place);
        }
        Ok(garbage)
    }

    /// Renames a complete layer from `from` into place, unless the store already has it.
    pub(crate) fn publish_layer(&self, layer: &LayerId, from: &Path) -> Result<(), LayerStoreError> {
        let to = self.store.layers().join(layer.hex());
        if to.exists() {
            return Ok(());
        }
        fs::rename(from, &to).doing("put in place", &to)?;
        sync(&self.store.layers())
    }

    /// Publishes an image: writes its record in `staging`, then renames it into place.
    pub(crate) fn publish_image(
        &self,
        image: &Image,
        staging: &StagingDirectory,
    ) -> Result<Image, LayerStoreError> {
        let written = staging.directory.join("image.json");
        let to = self.store.names().join(image.name.file_name());
        write_durably(&written, image)?;
        fs::rename(&written, &to).doing("put in place", &to)?;
        sync(&self.store.names())?;
        Ok(self.store.image(&image.name)?.unwrap_or_else(|| image.clone()))
    }

    pub(crate) fn remove_name(&self, name: &ImageName) -> Result<(), LayerStoreError> {
        let path = self.store.names().join(name.file_name());
        fs::remove_file(&path).doing("remove", &path)?;
        sync(&self.store.names())
    }
}

impl StagingDirectory {
    /// Makes an empty layer. Returns its directory and the root for its files.
    pub(crate) fn new_layer(&self, name: &str) -> Result<(PathBuf, PathBuf), LayerStoreError> {
        let layer = self.directory.join(name);
        let root = layer.join(ROOT);
        fs::create_dir(&layer).doing("make", &layer)?;
        fs::create_dir(&root).doing("make", &root)?;
        Ok((layer, root))
    }

    /// Writes a layer's metadata and syncs the filesystem, so that the layer is durable before it is published.
    pub(crate) fn write_record(&self, layer: &Path, record: &LayerRecord) -> Result<(), LayerStoreError> {
        write_durably(&layer.join(RECORD), record)?;
        let directory = File::open(layer).doing("open", layer)?;
        syncfs(&directory).doing("sync", layer)
    }

    /// Deletes the directory, the lock file last.
    pub(crate) fn delete(self) -> Result<(), LayerStoreError> {
        let lock = self.directory.join(LOCK);
        let delete = || -> io::Result<()> {
            for entry in fs::read_dir(&self.directory)? {
                let path = entry?.path();
                if path != lock {
                    ignore_not_found(remove_tree(&path))?;
                }
            }
            ignore_not_found(fs::remove_file(&lock))?;
            fs::remove_dir(&self.directory)
        };
        ignore_not_found(delete()).doing("delete", &self.directory)
    }
}

/// Treats "not found" as success: another process may have deleted it first.
fn ignore_not_found(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Removes a file or a tree, including directories whose modes lock out their owner.
fn remove_tree(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.is_dir() {
        return fs::remove_file(path);
    }
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            make_removable(CWD, path.as_os_str().as_bytes())?;
            fs::remove_dir_all(path)
        }
        other => other,
    }
}

/// Adds owner permissions to all directories. Works on descriptors: full paths may exceed PATH_MAX.
fn make_removable(parent: impl AsFd, name: &[u8]) -> io::Result<()> {
    chmodat(&parent, name, Mode::RWXU, AtFlags::empty())?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = openat(&parent, name, flags, Mode::empty())?;
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if entry.file_type() == FileType::Directory && !matches!(name, b"." | b"..") {
            make_removable(&directory, name)?;
        }
    }
    Ok(())
}

fn write_durably(path: &Path, what: &impl Serialize) -> Result<(), LayerStoreError> {
    let write = || -> io::Result<()> {
        let mut file = pinfold_private_files::create(path)?;
        file.write_all(&serde_json::to_vec_pretty(what)?)?;
        file.sync_all()
    };
    write().doing("write", path)
}

fn sync(directory: &Path) -> Result<(), LayerStoreError> {
    File::open(directory).and_then(|directory| directory.sync_all()).doing("sync", directory)
}
