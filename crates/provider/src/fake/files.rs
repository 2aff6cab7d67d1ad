//! Files of the fake, in memory. Directories, regular files and their modes; no links, pipes or watches.

use std::ops::Bound;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::provider::FakeProvider;
use super::world::FakeInstance;
use super::{Call, Fault};
use crate::{
    ContentStream, DirectoryEntry, FileChanges, FileContent, FileError, FileKind, Files, InMemoryContent,
    InstanceId, Listing, Metadata,
};

/// A file or directory, by its absolute path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FakeFile {
    Directory,
    Regular { mode: u32, content: Vec<u8> },
}

const WORKING_DIRECTORY: &[u8] = b"/workspace/";

impl FakeProvider {
    /// One call to the files of an instance. A fault leaves the files as they were, or hides the answer.
    async fn on_files<T>(
        &self,
        instance: InstanceId,
        operation: impl FnOnce(&mut FakeInstance) -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        let plan = self.begin(Call::Files).await;
        match plan.fault {
            Some(Fault::Fails) => return Err(FileError::Failed { why: "injected fault".into() }),
            Some(Fault::HalfDone) => return Err(no_answer()),
            Some(Fault::AnswerLost | Fault::ObserveFails) | None => {}
        }
        let done = match self.world.lock().alive(instance, self.now()) {
            Some(fake) => operation(fake),
            None => Err(FileError::NoSuchInstance),
        };
        if plan.fault == Some(Fault::ObserveFails) {
            return Err(no_answer());
        }
        self.answer(plan, done).await
    }
}

#[async_trait]
impl Files for FakeProvider {
    async fn stat(&self, instance: InstanceId, path: &[u8]) -> Result<Metadata, FileError> {
        let path = absolute(path);
        self.on_files(instance, move |fake| fake.file(&path).map(metadata)).await
    }

    async fn list(&self, instance: InstanceId, path: &[u8], most: usize) -> Result<Listing, FileError> {
        let mut prefix = absolute(path);
        self.on_files(instance, move |fake| {
            if prefix != b"/" {
                prefix.push(b'/');
            }
            let after = (Bound::Excluded(prefix.clone()), Bound::Unbounded);
            let below = fake.files.range(after).take_while(|(path, _)| path.starts_with(&prefix));
            let mut children = below.filter_map(|(path, file)| {
                let name = &path[prefix.len()..];
                let entry = DirectoryEntry { name: name.to_vec(), metadata: metadata(file) };
                (!name.contains(&b'/')).then_some(entry)
            });
            let entries = children.by_ref().take(most).collect();
            Ok(Listing { entries, more: children.next().is_some() })
        })
        .await
    }

    async fn read(
        &self,
        instance: InstanceId,
        path: &[u8],
        from: u64,
        most: u64,
    ) -> Result<FileContent, FileError> {
        let path = absolute(path);
        self.on_files(instance, move |fake| match fake.file(&path)? {
            FakeFile::Directory => Err(FileError::IsADirectory { why: text(&path) }),
            file @ FakeFile::Regular { content, .. } => {
                let cut = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(content.len());
                let part = content[cut(from)..cut(from.saturating_add(most))].to_vec();
                Ok(FileContent { metadata: metadata(file), pieces: Box::new(InMemoryContent::new(part)) })
            }
        })
        .await
    }

    async fn write(
        &self,
        instance: InstanceId,
        path: &[u8],
        mode: Option<u32>,
        content: &mut dyn ContentStream,
    ) -> Result<u64, FileError> {
        let mut bytes = Vec::new();
        while let Some(piece) = content.next().await? {
            bytes.extend(piece);
        }
        let path = absolute(path);
        self.on_files(instance, move |fake| {
            let kept = match fake.files.get(&path) {
                Some(FakeFile::Directory) => return Err(FileError::IsADirectory { why: text(&path) }),
                Some(FakeFile::Regular { mode, .. }) => Some(*mode),
                None => None,
            };
            let written = bytes.len() as u64;
            let mode = mode.or(kept).unwrap_or(0o644);
            fake.files.insert(path, FakeFile::Regular { mode, content: bytes });
            Ok(written)
        })
        .await
    }

    async fn make_directory(
        &self,
        instance: InstanceId,
        path: &[u8],
        parents: bool,
    ) -> Result<(), FileError> {
        let path = absolute(path);
        self.on_files(instance, move |fake| {
            if fake.files.contains_key(&path) && !parents {
                return Err(FileError::Exists { why: text(&path) });
            }
            fake.files.entry(path).or_insert(FakeFile::Directory);
            Ok(())
        })
        .await
    }

    async fn set_mode(&self, instance: InstanceId, path: &[u8], new: u32) -> Result<(), FileError> {
        let path = absolute(path);
        self.on_files(instance, move |fake| {
            fake.file(&path)?;
            if let Some(FakeFile::Regular { mode, .. }) = fake.files.get_mut(&path) {
                *mode = new;
            }
            Ok(())
        })
        .await
    }

    async fn make_link(&self, _instance: InstanceId, path: &[u8], _target: &[u8]) -> Result<(), FileError> {
        Err(FileError::Denied { why: format!("the fake has no links: {}", text(path)) })
    }

    async fn rename(
        &self,
        instance: InstanceId,
        from: &[u8],
        to: &[u8],
        replace: bool,
    ) -> Result<(), FileError> {
        let (from, to) = (absolute(from), absolute(to));
        self.on_files(instance, move |fake| {
            let file = fake.file(&from)?.clone();
            if fake.files.contains_key(&to) && !replace {
                return Err(FileError::Exists { why: text(&to) });
            }
            fake.files.remove(&from);
            fake.files.insert(to, file);
            Ok(())
        })
        .await
    }

    async fn remove(&self, instance: InstanceId, path: &[u8], recursive: bool) -> Result<u64, FileError> {
        let path = absolute(path);
        self.on_files(instance, move |fake| {
            fake.file(&path)?;
            let below = [&path[..], b"/"].concat();
            let is_below = |other: &Vec<u8>| other.starts_with(&below);
            if !recursive && fake.files.keys().any(is_below) {
                return Err(FileError::NotEmpty { why: text(&path) });
            }
            let before = fake.files.len();
            fake.files.retain(|other, _| *other != path && !is_below(other));
            Ok((before - fake.files.len()) as u64)
        })
        .await
    }

    async fn watch(&self, _instance: InstanceId, path: &[u8]) -> Result<Box<dyn FileChanges>, FileError> {
        Err(FileError::Denied { why: format!("the fake watches no directories: {}", text(path)) })
    }
}

impl FakeInstance {
    fn file(&self, path: &[u8]) -> Result<&FakeFile, FileError> {
        self.files.get(path).ok_or_else(|| FileError::NotFound { why: text(path) })
    }
}

fn absolute(path: &[u8]) -> Vec<u8> {
    if path.starts_with(b"/") { path.to_vec() } else { [WORKING_DIRECTORY, path].concat() }
}

fn metadata(file: &FakeFile) -> Metadata {
    let (kind, size, mode) = match file {
        FakeFile::Directory => (FileKind::Directory, 0, 0o755),
        FakeFile::Regular { mode, content } => (FileKind::File, content.len() as u64, *mode),
    };
    Metadata { kind, size, mode, uid: 0, gid: 0, modified_ms: 0, target: None }
}

fn text(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

fn no_answer() -> FileError {
    FileError::NoAnswer { why: "injected fault: no answer".into() }
}
