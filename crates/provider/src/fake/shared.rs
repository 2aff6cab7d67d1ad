//! The fake world in a file: read under a lock before every use, and replaced whole after it, so that a process
//! that is killed at any moment leaves the world as it was before or after its deed.

use std::fs::{self, File};
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::MutexGuard;

use rustix::fs::{FlockOperation, flock};

use super::world::Contents;

/// The world while one looks at it or changes it. Nobody else does at the same time.
pub(crate) struct Locked<'a> {
    contents: MutexGuard<'a, Contents>,
    shared: Option<Shared<'a>>,
}

struct Shared<'a> {
    file: &'a Path,
    /// Held until this is dropped; the kernel frees it if its holder dies.
    _lock: File,
}

impl<'a> Locked<'a> {
    pub(crate) fn new(mut contents: MutexGuard<'a, Contents>, file: Option<&'a Path>) -> Self {
        let shared = file.map(|file| {
            let lock = File::create(file.with_extension("lock")).expect("the fake world's lock can be made");
            flock(&lock, FlockOperation::LockExclusive).expect("the fake world can be locked");
            if let Ok(text) = fs::read(file) {
                *contents = serde_json::from_slice(&text).expect("the fake world can be read");
            }
            Shared { file, _lock: lock }
        });
        Self { contents, shared }
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        if let Some(Shared { file, .. }) = &self.shared {
            let text = serde_json::to_vec(&*self.contents).expect("the fake world can be written");
            let draft = file.with_extension("draft");
            fs::write(&draft, text).expect("the fake world's draft can be written");
            fs::rename(draft, file).expect("the fake world can be replaced");
        }
    }
}

impl Deref for Locked<'_> {
    type Target = Contents;

    fn deref(&self) -> &Contents {
        &self.contents
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Contents {
        &mut self.contents
    }
}

/// A map with keys that are not text, as a list of pairs.
pub(crate) mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map)
    }

    pub(crate) fn deserialize<'de, K: Deserialize<'de> + Ord, V: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<K, V>, D::Error> {
        Ok(Vec::<(K, V)>::deserialize(deserializer)?.into_iter().collect())
    }
}
