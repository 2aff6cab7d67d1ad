//! The object store: a local directory, or a bucket that speaks S3.

use std::fs;
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
        fs::create_dir_all(directory).map_err(failed)?;
        let private = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o700);
        fs::set_permissions(directory, private).map_err(failed)?;
        let store = LocalFileSystem::new_with_prefix(directory).map_err(|source| {
            ObjectStorageError::Store { what: format!("`{}`", directory.display()), source }
        })?;
        let store = store.with_fsync(true).with_automatic_cleanup(true);
        Ok(Self { store: Arc::new(store), prefix: object_store::path::Path::default() })
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
        Ok(Self { store: Arc::new(store), prefix })
    }

    /// Any other object store, with a prefix for every name.
    pub fn of(store: Arc<dyn ObjectStore>, prefix: &str) -> Result<Self, ObjectStorageError> {
        let parsed = object_store::path::Path::parse(prefix);
        let prefix =
            parsed.map_err(|source| ObjectStorageError::Prefix { given: prefix.to_owned(), source })?;
        Ok(Self { store, prefix })
    }

    pub(crate) fn path(&self, parts: &[&str]) -> object_store::path::Path {
        let parts = parts.iter().map(|part| object_store::path::PathPart::from(*part));
        self.prefix.parts().chain(parts).collect()
    }
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
