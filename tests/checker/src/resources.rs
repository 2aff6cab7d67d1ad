//! Resources found on a host, by the name of the instance that owns them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Key of resources that carry no instance name.
pub(crate) const UNNAMED: &str = "no name";

/// Every resource found, as `kind: description`, by instance name.
pub type Resources = BTreeMap<String, BTreeSet<String>>;

/// Files the resource under the instance name in its text (`v1.sbx_…`), or under `no name`.
pub fn record(resources: &mut Resources, kind: &str, text: &str) {
    resources
        .entry(instance_name_in(text).unwrap_or(UNNAMED).to_owned())
        .or_default()
        .insert(format!("{kind}: {}", text.trim()));
}

/// The last instance name in a text.
pub(crate) fn instance_name_in(text: &str) -> Option<&str> {
    let mut words = text.split(|letter: char| letter.is_whitespace() || letter == '/');
    words.rfind(|word| word.starts_with("v1.sbx_"))
}

/// Records what the instances of a data directory left in it.
pub fn record_directories(resources: &mut Resources, data: &Path) -> io::Result<()> {
    for place in ["instances", "control", "ids"] {
        let entries = match fs::read_dir(data.join("linux").join(place)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            read => read?,
        };
        for entry in entries {
            let path = entry?.path();
            // The file of an id range names the instance that owns it.
            let owner =
                if place == "ids" { fs::read_to_string(&path).unwrap_or_default() } else { String::new() };
            record(resources, "directory", &format!("{} {owner}", path.display()));
        }
    }
    Ok(())
}

/// All cgroups with such a path, in every hierarchy.
pub fn cgroups(is_ours: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut to_see = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(group) = to_see.pop() {
        let Ok(entries) = fs::read_dir(&group) else { continue };
        for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            let path = entry.path();
            if is_ours(&path.to_string_lossy()) {
                found.push(path.clone());
            }
            to_see.push(path);
        }
    }
    found
}
