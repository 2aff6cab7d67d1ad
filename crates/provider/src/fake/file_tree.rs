//! The files of a fake instance, in memory. Operations answer as a kernel would.

use std::collections::BTreeMap;
use std::ops::Bound;

use pinfold_lifecycle::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{DirectoryEntry, FileError, FileKind, Listing, Metadata};

/// Files by absolute path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub(crate) struct FileTree {
    #[serde(with = "super::shared::pairs")]
    files: BTreeMap<Vec<u8>, FakeFile>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FakeFile {
    pub(crate) content: Content,
    mode: u32,
    modified_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Content {
    Directory,
    Regular(Vec<u8>),
    /// A symbolic link with its target.
    Link(Vec<u8>),
    Pipe,
}

/// The working directory of an instance.
pub(crate) const WORKING_DIRECTORY: &[u8] = b"/workspace";
const DIRECTORIES: [&[u8]; 6] = [b"/", b"/etc", b"/proc", b"/proc/1", b"/tmp", WORKING_DIRECTORY];
const KEEPER_NAME: &[u8] = b"/proc/1/comm";
/// As in the kernel.
const MAX_LINKS: usize = 40;

/// A path relative to a directory as an absolute one, without `.`, `..` and repeated slashes.
pub(crate) fn absolute(directory: &[u8], path: &[u8]) -> Vec<u8> {
    let base: &[u8] = if path.starts_with(b"/") { b"" } else { directory };
    let mut names: Vec<&[u8]> = Vec::new();
    for name in base.split(|byte| *byte == b'/').chain(path.split(|byte| *byte == b'/')) {
        match name {
            b"" | b"." => {}
            b".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    [b"/", &names.join(&b'/')[..]].concat()
}

impl FileTree {
    /// The files of a new instance.
    pub(crate) fn new(now: Timestamp) -> Self {
        let directory = |path: &&[u8]| (path.to_vec(), FakeFile::new(Content::Directory, 0o755, now));
        let mut files: BTreeMap<_, _> = DIRECTORIES.iter().map(directory).collect();
        let name = Content::Regular(b"keeper\n".to_vec());
        files.insert(KEEPER_NAME.to_vec(), FakeFile::new(name, 0o444, now));
        Self { files }
    }

    /// Without following a symbolic link.
    pub(crate) fn get(&self, path: &[u8]) -> Result<&FakeFile, FileError> {
        self.files.get(path).ok_or_else(|| not_found(path))
    }

    /// Follows symbolic links.
    pub(crate) fn follow(&self, path: &[u8]) -> Result<&FakeFile, FileError> {
        let mut path = path.to_vec();
        for _ in 0..MAX_LINKS {
            match self.get(&path)? {
                FakeFile { content: Content::Link(target), .. } => path = absolute(parent(&path), target),
                file => return Ok(file),
            }
        }
        Err(FileError::BadPath { why: format!("too many symbolic links: {}", text(&path)) })
    }

    /// The content of a regular file.
    pub(crate) fn read(&self, path: &[u8]) -> Result<&[u8], FileError> {
        match &self.follow(path)?.content {
            Content::Regular(content) => Ok(content),
            Content::Directory => Err(FileError::IsADirectory { why: text(path) }),
            Content::Pipe | Content::Link(_) => Err(FileError::NotAFile { why: text(path) }),
        }
    }

    /// Replaces a file. Without a mode an existing file keeps its own.
    pub(crate) fn write(
        &mut self,
        path: Vec<u8>,
        mode: Option<u32>,
        content: Vec<u8>,
        now: Timestamp,
    ) -> Result<(), FileError> {
        self.check_parent(&path)?;
        let kept = match self.files.get(&path) {
            Some(FakeFile { content: Content::Directory, .. }) => {
                return Err(FileError::IsADirectory { why: text(&path) });
            }
            Some(FakeFile { content: Content::Regular(_), mode, .. }) => Some(*mode),
            Some(_) | None => None,
        };
        let mode = mode.or(kept).unwrap_or(0o644);
        self.files.insert(path, FakeFile::new(Content::Regular(content), mode, now));
        Ok(())
    }

    /// Appends to a regular file that exists.
    pub(crate) fn append(&mut self, path: &[u8], bytes: &[u8], now: Timestamp) {
        if let Some(FakeFile { content: Content::Regular(content), modified_at, .. }) =
            self.files.get_mut(path)
        {
            content.extend(bytes);
            *modified_at = now;
        }
    }

    /// Makes a directory, a link or a pipe.
    pub(crate) fn make(&mut self, path: Vec<u8>, content: Content, now: Timestamp) -> Result<(), FileError> {
        self.check_parent(&path)?;
        if self.files.contains_key(&path) {
            return Err(FileError::Exists { why: text(&path) });
        }
        let mode = if content == Content::Directory { 0o755 } else { 0o644 };
        self.files.insert(path, FakeFile::new(content, mode, now));
        Ok(())
    }

    /// Makes a directory with its parents.
    pub(crate) fn make_directories(&mut self, path: &[u8], now: Timestamp) -> Result<(), FileError> {
        if path != b"/" {
            self.make_directories(parent(path), now)?;
        }
        match self.files.get(path) {
            Some(FakeFile { content: Content::Directory, .. }) => Ok(()),
            Some(_) => Err(FileError::Exists { why: text(path) }),
            None => self.make(path.to_vec(), Content::Directory, now),
        }
    }

    pub(crate) fn set_mode(&mut self, path: &[u8], mode: u32) -> Result<(), FileError> {
        let file = self.files.get_mut(path).ok_or_else(|| not_found(path))?;
        file.mode = mode;
        Ok(())
    }

    pub(crate) fn rename(&mut self, from: &[u8], to: &[u8], replace: bool) -> Result<(), FileError> {
        self.get(from)?;
        self.check_parent(to)?;
        if self.files.contains_key(to) && !replace {
            return Err(FileError::Exists { why: text(to) });
        }
        let moved: Vec<_> = self.files.keys().filter(|path| is_in(path, from)).cloned().collect();
        for path in moved {
            if let Some(file) = self.files.remove(&path) {
                self.files.insert([to, &path[from.len()..]].concat(), file);
            }
        }
        Ok(())
    }

    /// Returns the number of files removed.
    pub(crate) fn remove(&mut self, path: &[u8], recursive: bool) -> Result<u64, FileError> {
        self.get(path)?;
        let before = self.files.len();
        let others = self.files.keys().filter(|other| is_in(other, path)).count() > 1;
        if others && !recursive {
            return Err(FileError::NotEmpty { why: text(path) });
        }
        self.files.retain(|other, _| !is_in(other, path));
        Ok((before - self.files.len()) as u64)
    }

    /// At most `most` entries of a directory, by name.
    pub(crate) fn list(&self, path: &[u8], most: usize) -> Result<Listing, FileError> {
        if self.follow(path)?.content != Content::Directory {
            return Err(FileError::NotADirectory { why: text(path) });
        }
        let prefix = if path == b"/" { b"/".to_vec() } else { [path, b"/"].concat() };
        let after = (Bound::Excluded(prefix.clone()), Bound::Unbounded);
        let below = self.files.range(after).take_while(|(path, _)| path.starts_with(&prefix));
        let mut children = below.filter_map(|(path, file)| {
            let name = &path[prefix.len()..];
            let entry = DirectoryEntry { name: name.to_vec(), metadata: file.metadata() };
            (!name.contains(&b'/')).then_some(entry)
        });
        let entries = children.by_ref().take(most).collect();
        Ok(Listing { entries, more: children.next().is_some() })
    }

    /// The bytes of all files.
    pub(crate) fn size(&self) -> u64 {
        self.files.values().map(|file| file.metadata().size).sum()
    }

    fn check_parent(&self, path: &[u8]) -> Result<(), FileError> {
        match self.follow(parent(path))?.content {
            Content::Directory => Ok(()),
            Content::Regular(_) | Content::Link(_) | Content::Pipe => {
                Err(FileError::NotADirectory { why: text(parent(path)) })
            }
        }
    }
}

impl FakeFile {
    fn new(content: Content, mode: u32, modified_at: Timestamp) -> Self {
        Self { content, mode, modified_at }
    }

    pub(crate) fn is_executable(&self) -> bool {
        matches!(self.content, Content::Regular(_)) && self.mode & 0o111 != 0
    }

    pub(crate) fn metadata(&self) -> Metadata {
        let (kind, size, target) = match &self.content {
            Content::Directory => (FileKind::Directory, 0, None),
            Content::Regular(content) => (FileKind::File, content.len() as u64, None),
            Content::Link(target) => (FileKind::Link, target.len() as u64, Some(target.clone())),
            Content::Pipe => (FileKind::Pipe, 0, None),
        };
        Metadata { kind, size, mode: self.mode, uid: 0, gid: 0, modified_ms: self.modified_at.0, target }
    }
}

fn parent(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) if slash > 0 => &path[..slash],
        _ => b"/",
    }
}

/// Whether a path is this one or below it.
fn is_in(path: &[u8], top: &[u8]) -> bool {
    path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/") || top == b"/")
}

fn not_found(path: &[u8]) -> FileError {
    FileError::NotFound { why: text(path) }
}

fn text(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}
