//! Test fixture: a directory of images beside a canary file that no import may touch.

use std::error::Error;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use pinfold_images::{Image, Images, ImportError, Limits, Refusal, Unpacker};

pub(crate) struct Fixture {
    directory: tempfile::TempDir,
    pub(crate) images: Images,
}

pub(crate) const CANARY: &str = "alive";

impl Fixture {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        // World-writable, so that any process that escapes could change the canary.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(directory.path().join("canary"), CANARY).unwrap();
        fs::set_permissions(directory.path().join("canary"), fs::Permissions::from_mode(0o666)).unwrap();
        let images = Images::open(directory.path().join("images"), unpacker()).unwrap();
        Self { directory, images }
    }

    pub(crate) fn limited(limits: Limits) -> Self {
        let fixture = Self::new();
        Self { images: fixture.images.with_limits(limits), directory: fixture.directory }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn canary(&self) -> String {
        self.path("canary").to_str().unwrap().to_owned()
    }

    /// Imports a file with these bytes.
    pub(crate) fn import(&self, bytes: &[u8], name: &str) -> Result<Image, ImportError> {
        let source = self.path("source");
        fs::write(&source, bytes).unwrap();
        let imported = self.images.import(&source, name);
        fs::remove_file(&source).unwrap();
        self.assert_unharmed();
        imported
    }

    /// Imports bytes that must be refused and leave nothing behind.
    pub(crate) fn refused(&self, bytes: &[u8]) -> Refusal {
        let before = self.images.list().unwrap();
        let error = self.import(bytes, "refused").unwrap_err();
        assert_eq!(self.images.list().unwrap(), before);
        self.assert_nothing_unfinished();
        match error {
            ImportError::Refused { source, .. } => source,
            other => panic!("{}", chain(&other)),
        }
    }

    /// The root of the topmost layer of an image made of these bytes.
    pub(crate) fn root_of(&self, bytes: &[u8]) -> PathBuf {
        let image = self.import(bytes, "image").unwrap_or_else(|error| panic!("{}", chain(&error)));
        self.images.layers(&image.id).unwrap().remove(0)
    }

    pub(crate) fn assert_unharmed(&self) {
        assert_eq!(fs::read_to_string(self.path("canary")).unwrap(), CANARY);
        let mut names: Vec<_> =
            fs::read_dir(self.directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.retain(|name| !["canary", "images", "source"].iter().any(|ours| name == ours));
        assert!(names.is_empty(), "made outside of the image: {names:?}");
    }

    pub(crate) fn assert_nothing_unfinished(&self) {
        assert_eq!(names_in(&self.path("images/unfinished")), [""; 0]);
    }

    pub(crate) fn layer_count(&self) -> usize {
        names_in(&self.path("images/layers")).len()
    }
}

pub(crate) fn unpacker() -> Unpacker {
    Unpacker { program: env!("CARGO_BIN_EXE_pinfold-images").into(), arguments: vec!["unpack".into()] }
}

pub(crate) fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

pub(crate) fn chain(error: &dyn Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {}", chain(source)))
}
