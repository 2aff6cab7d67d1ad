//! Configuration of the object store for archived logs and artifacts.

use std::path::{Path, PathBuf};

use pinfold_logs::{ObjectStorage, ObjectStorageError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectStoreConfig {
    /// A local directory; a relative path is below the data directory.
    Directory(PathBuf),
    Bucket(BucketConfig),
}

impl Default for ObjectStoreConfig {
    fn default() -> Self {
        Self::Directory("objects".into())
    }
}

/// A bucket of an S3-compatible store.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct BucketConfig {
    pub name: String,
    pub endpoint: Option<String>,
    pub region: Option<String>,
    pub prefix: String,
    /// None: the usual AWS environment variables.
    pub keys: Option<(String, String)>,
}

impl std::fmt::Debug for BucketConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BucketConfig")
            .field("name", &self.name)
            .field("endpoint", &self.endpoint)
            .field("region", &self.region)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OpenObjectStoreError {
    #[error(transparent)]
    Objects(#[from] ObjectStorageError),
    #[error(
        "logs are to go to the bucket `{bucket}`, but this program was built without S3; build it with \
         `--features s3`, or leave `logs.bucket` out"
    )]
    WithoutS3 { bucket: String },
}

impl ObjectStoreConfig {
    pub fn open(&self, data: &Path) -> Result<ObjectStorage, OpenObjectStoreError> {
        match self {
            Self::Directory(directory) => Ok(ObjectStorage::local(&data.join(directory))?),
            Self::Bucket(bucket) => open_bucket(bucket),
        }
    }
}

#[cfg(feature = "s3")]
fn open_bucket(bucket: &BucketConfig) -> Result<ObjectStorage, OpenObjectStoreError> {
    let BucketConfig { name, endpoint, region, prefix, keys } = bucket.clone();
    let keys = keys
        .map(|(access_key_id, secret_access_key)| pinfold_logs::Keys { access_key_id, secret_access_key });
    Ok(ObjectStorage::s3(&pinfold_logs::Bucket { name, endpoint, region, prefix, keys })?)
}

#[cfg(not(feature = "s3"))]
fn open_bucket(bucket: &BucketConfig) -> Result<ObjectStorage, OpenObjectStoreError> {
    Err(OpenObjectStoreError::WithoutS3 { bucket: bucket.name.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_directory_is_in_the_data_directory() {
        let data = tempfile::tempdir().unwrap();

        ObjectStoreConfig::default().open(data.path()).unwrap();

        assert!(data.path().join("objects").is_dir());
    }

    #[test]
    fn keys_are_not_shown() {
        let bucket = BucketConfig { keys: Some(("id".into(), "hunter2".into())), ..BucketConfig::default() };

        assert!(!format!("{bucket:?}").contains("hunter2"));
    }
}
