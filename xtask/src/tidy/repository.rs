//! The text files of this repository, read once for all checks.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Git's own files, and build output.
const NOT_OURS: &[&str] = &[".git", "target", "node_modules"];

const SOURCE_DIRECTORIES: &[&str] = &["crates/", "xtask/", "tests/", "benches/"];

pub(super) struct File {
    /// From the root of the repository, with forward slashes.
    pub(super) path: String,
    pub(super) text: String,
}

pub(super) struct Repository {
    files: Vec<File>,
    /// Every file, also those that are not text, and every directory.
    paths: BTreeSet<String>,
}

impl Repository {
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut repository = Self { files: Vec::new(), paths: BTreeSet::new() };
        repository.read_directory(root, "")?;
        repository.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(repository)
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let mut repository = Self { files: Vec::new(), paths: BTreeSet::new() };
        for (path, text) in files {
            repository.files.push(File { path: (*path).to_owned(), text: (*text).to_owned() });
            for (end, _) in path.match_indices('/') {
                repository.paths.insert(path[..end].to_owned());
            }
            repository.paths.insert((*path).to_owned());
        }
        repository
    }

    fn read_directory(&mut self, root: &Path, below: &str) -> Result<()> {
        let directory = root.join(below);
        let unreadable = || format!("could not read `{}`", directory.display());
        for entry in fs::read_dir(&directory).with_context(unreadable)? {
            let entry = entry.with_context(unreadable)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if NOT_OURS.contains(&name.as_str()) {
                continue;
            }
            let path = if below.is_empty() { name } else { format!("{below}/{name}") };
            let kind = entry.file_type().with_context(unreadable)?;
            if kind.is_dir() {
                self.read_directory(root, &path)?;
            } else if kind.is_file() {
                self.read_file(root, &path)?;
            }
            self.paths.insert(path);
        }
        Ok(())
    }

    fn read_file(&mut self, root: &Path, path: &str) -> Result<()> {
        let bytes = fs::read(root.join(path)).with_context(|| format!("could not read `{path}`"))?;
        if let Ok(text) = String::from_utf8(bytes) {
            self.files.push(File { path: path.to_owned(), text });
        }
        Ok(())
    }

    /// Whether a file or directory exists. A trailing slash does not matter.
    pub(super) fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        path.is_empty() || self.paths.contains(path)
    }

    pub(super) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// All files but the lock file, which cargo writes.
    pub(super) fn written_files(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| !file.path.ends_with("Cargo.lock"))
    }

    pub(super) fn rust_sources(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| {
            file.path.ends_with(".rs") && SOURCE_DIRECTORIES.iter().any(|start| file.path.starts_with(start))
        })
    }

    /// The documents that readers start from.
    pub(super) fn documents(&self) -> impl Iterator<Item = &File> {
        const AT_THE_ROOT: &[&str] = &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];
        self.files.iter().filter(|file| {
            let path = file.path.as_str();
            AT_THE_ROOT.contains(&path) || (path.starts_with("docs/") && path.ends_with(".md"))
        })
    }
}

impl File {
    /// Lines with their numbers, which begin at one as editors count.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cargo;

    #[test]
    fn this_repository_is_read_without_what_builds_leave_behind() {
        let repository = Repository::read(&cargo::repository_root()).unwrap();

        assert!(repository.has("xtask/src/tidy/repository.rs"));
        assert!(repository.has("xtask/src/"));
        assert!(!repository.has("target"));
        assert!(repository.rust_sources().any(|file| file.path == "xtask/src/main.rs"));
        assert!(repository.documents().any(|file| file.path == "README.md"));
    }
}
