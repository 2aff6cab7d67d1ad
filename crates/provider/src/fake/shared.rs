//! The fake host in a file: read under a lock before every use and replaced atomically after it, so that a
//! process killed at any moment leaves it as before or after its call.

use std::fs::{self, File};
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::MutexGuard;

use rustix::fs::{FlockOperation, flock};

use super::world::Contents;

/// Exclusive access to the fake host's state.
pub(crate) struct Locked<'a> {
    contents: MutexGuard<'a, Contents>,
    shared: Option<Shared<'a>>,
}

struct Shared<'a> {
    file: &'a Path,
    /// Held until drop; the kernel releases it if the process dies.
    _lock: File,
}

impl<'a> Locked<'a> {
    pub(crate) fn new(mut contents: MutexGuard<'a, Contents>, file: Option<&'a Path>) -> Self {
        let shared = file.map(|file| {
            let lock = File::create(file.with_extension("lock")).expect("create the fake host's lock file");
            flock(&lock, FlockOperation::LockExclusive).expect("lock the fake host");
            if let Ok(text) = fs::read(file) {
                *contents = serde_json::from_slice(&text).expect("parse the fake host's state");
            }
            Shared { file, _lock: lock }
        });
        Self { contents, shared }
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        if let Some(Shared { file, .. }) = &self.shared {
            let text = serde_json::to_vec(&*self.contents).expect("serialize the fake host's state");
            let draft = file.with_extension("draft");
            fs::write(&draft, text).expect("write the fake host's draft");
            fs::rename(draft, file).expect("replace the fake host's state");
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

/// Serializes a map with non-string keys as a list of pairs.
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
