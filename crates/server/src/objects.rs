//! Where logs go after their sandboxes, and artifacts.

use std::path::{Path, PathBuf};

use pinfold_logs::{Objects, ObjectsError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectsPlace {
    /// On this host; a relative path begins at the data directory.
    Directory(PathBuf),
    Bucket(BucketPlace),
}

impl Default for ObjectsPlace {
    fn default() -> Self {
        Self::Directory("objects".into())
    }
}

/// A bucket of a store that speaks S3.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct BucketPlace {
    pub name: String,
    pub endpoint: Option<String>,
    pub region: Option<String>,
    pub prefix: String,
    /// None: from the environment, by the names that all programs use.
    pub keys: Option<(String, String)>,
}

impl std::fmt::Debug for BucketPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BucketPlace")
            .field("name", &self.name)
            .field("endpoint", &self.endpoint)
            .field("region", &self.region)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OpenObjectsError {
    #[error(transparent)]
    Objects(#[from] ObjectsError),
    #[error(
        "logs are to go to the bucket `{bucket}`, but this program was built without S3; build it with \
         `--features s3`, or leave `logs.bucket` out"
    )]
    WithoutS3 { bucket: String },
}

impl ObjectsPlace {
    pub fn open(&self, data: &Path) -> Result<Objects, OpenObjectsError> {
        match self {
            Self::Directory(directory) => Ok(Objects::local(&data.join(directory))?),
            Self::Bucket(place) => open_bucket(place),
        }
    }
}

#[cfg(feature = "s3")]
fn open_bucket(place: &BucketPlace) -> Result<Objects, OpenObjectsError> {
    let BucketPlace { name, endpoint, region, prefix, keys } = place.clone();
    let keys = keys
        .map(|(access_key_id, secret_access_key)| pinfold_logs::Keys { access_key_id, secret_access_key });
    Ok(Objects::s3(&pinfold_logs::Bucket { name, endpoint, region, prefix, keys })?)
}

#[cfg(not(feature = "s3"))]
fn open_bucket(place: &BucketPlace) -> Result<Objects, OpenObjectsError> {
    Err(OpenObjectsError::WithoutS3 { bucket: place.name.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_directory_is_in_the_data_directory() {
        let data = tempfile::tempdir().unwrap();

        ObjectsPlace::default().open(data.path()).unwrap();

        assert!(data.path().join("objects").is_dir());
    }

    #[test]
    fn keys_are_not_shown() {
        let place = BucketPlace { keys: Some(("id".into(), "hunter2".into())), ..BucketPlace::default() };

        assert!(!format!("{place:?}").contains("hunter2"));
    }
}
