//! The object store: a local directory, or a bucket that speaks S3.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::local::LocalFileSystem;

/// The object store for logs of ended sandboxes, artifacts and archived metrics.
#[derive(Debug, Clone)]
pub struct ObjectStorage {
    pub(crate) store: Arc<dyn ObjectStore>,
    /// The prefix of every name.
    prefix: object_store::path::Path,
    /// Shared by every process that writes to a local directory.
    _lock: Option<Arc<File>>,
}

#[derive(Debug, thiserror::Error)]
pub enum ObjectStorageError {
    #[error("could not create the directory `{}` for logs and artifacts", path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error("could not use the object store {what}")]
    Store { what: String, source: object_store::Error },
    #[error("`{given}` is not a valid prefix of names in an object store")]
    Prefix { given: String, source: object_store::path::Error },
}

impl ObjectStorage {
    /// A directory on this host. A put that returns is durable.
    pub fn local(directory: &Path) -> Result<Self, ObjectStorageError> {
        let failed = |source| ObjectStorageError::Directory { path: directory.to_owned(), source };
        pinfold_private_files::make_directory(directory).map_err(failed)?;
        let lock = lock_and_clear(directory).map_err(failed)?;
        let store = LocalFileSystem::new_with_prefix(directory).map_err(|source| {
            ObjectStorageError::Store { what: format!("`{}`", directory.display()), source }
        })?;
        let store = store.with_fsync(true).with_automatic_cleanup(true);
        let prefix = object_store::path::Path::default();
        Ok(Self { store: Arc::new(store), prefix, _lock: Some(Arc::new(lock)) })
    }

    /// A bucket. Keys and other settings that are not given come from the usual environment variables
    /// (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, …).
    #[cfg(feature = "s3")]
    pub fn s3(bucket: &Bucket) -> Result<Self, ObjectStorageError> {
        let mut builder = object_store::aws::AmazonS3Builder::from_env().with_bucket_name(&bucket.name);
        if let Some(endpoint) = &bucket.endpoint {
            builder = builder.with_endpoint(endpoint).with_allow_http(endpoint.starts_with("http://"));
        }
        if let Some(region) = &bucket.region {
            builder = builder.with_region(region);
        }
        if let Some(Keys { access_key_id, secret_access_key }) = &bucket.keys {
            builder = builder.with_access_key_id(access_key_id).with_secret_access_key(secret_access_key);
        }
        let store = builder.build().map_err(|source| ObjectStorageError::Store {
            what: format!("bucket `{}`", bucket.name),
            source,
        })?;
        let prefix = object_store::path::Path::parse(&bucket.prefix)
            .map_err(|source| ObjectStorageError::Prefix { given: bucket.prefix.clone(), source })?;
        Ok(Self { store: Arc::new(store), prefix, _lock: None })
    }

    /// Any other object store, with a prefix for every name.
    pub fn of(store: Arc<dyn ObjectStore>, prefix: &str) -> Result<Self, ObjectStorageError> {
        let parsed = object_store::path::Path::parse(prefix);
        let prefix =
            parsed.map_err(|source| ObjectStorageError::Prefix { given: prefix.to_owned(), source })?;
        Ok(Self { store, prefix, _lock: None })
    }

    pub(crate) fn path(&self, parts: &[&str]) -> object_store::path::Path {
        let parts = parts.iter().map(|part| object_store::path::PathPart::from(*part));
        self.prefix.parts().chain(parts).collect()
    }
}

/// A put writes to `NAME#NUMBER` and renames it when it is complete. Such files are of a killed process if no process
/// uses the directory, which the lock proves.
fn lock_and_clear(directory: &Path) -> io::Result<File> {
    let lock =
        pinfold_private_files::options().create(true).append(true).open(directory.with_extension("lock"))?;
    match lock.try_lock() {
        Ok(()) => remove_unfinished(directory)?,
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => return Err(error),
    }
    lock.lock_shared()?;
    Ok(lock)
}

fn remove_unfinished(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_unfinished(&entry.path())?;
        } else if is_unfinished(&entry.file_name().to_string_lossy()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn is_unfinished(name: &str) -> bool {
    let number = name.rsplit_once('#').map(|(_, number)| number);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The address of a bucket.
#[cfg(feature = "s3")]
#[derive(Debug, Clone, Default)]
pub struct Bucket {
    pub name: String,
    /// None: Amazon's.
    pub endpoint: Option<String>,
    pub region: Option<String>,
    /// The prefix of every name; may be empty.
    pub prefix: String,
    /// None: from the environment.
    pub keys: Option<Keys>,
}

#[cfg(feature = "s3")]
#[derive(Clone)]
pub struct Keys {
    pub access_key_id: String,
    pub secret_access_key: String,
}

#[cfg(feature = "s3")]
impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").field("access_key_id", &self.access_key_id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_files_are_removed_when_no_process_uses_the_directory() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("objects");
        let first = ObjectStorage::local(&directory).unwrap();
        fs::create_dir(directory.join("logs")).unwrap();
        let (whole, part) = (directory.join("logs/whole"), directory.join("logs/whole#1"));
        for path in [&whole, &part] {
            fs::write(path, "").unwrap();
        }

        let second = ObjectStorage::local(&directory).unwrap();

        assert!(part.exists(), "the first one may be writing it");
        drop((first, second));
        ObjectStorage::local(&directory).unwrap();
        assert!(whole.exists() && !part.exists());
    }
}
