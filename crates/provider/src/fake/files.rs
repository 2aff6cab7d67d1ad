//! The [`Files`] implementation of the fake. It watches no directories.

use async_trait::async_trait;

use super::file_tree::{Content, WORKING_DIRECTORY, absolute};
use super::provider::FakeProvider;
use super::world::FakeInstance;
use super::{Call, Fault};
use crate::{
    ContentStream, FileChanges, FileContent, FileError, Files, InMemoryContent, InstanceId, Listing, Metadata,
};

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
        let done = match self.contents().alive(instance, self.now()) {
            Some(fake) => {
                fake.operations += 1;
                operation(fake)
            }
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
        let path = in_workspace(path);
        self.on_files(instance, move |fake| Ok(fake.files.get(&path)?.metadata())).await
    }

    async fn list(&self, instance: InstanceId, path: &[u8], most: usize) -> Result<Listing, FileError> {
        let path = in_workspace(path);
        self.on_files(instance, move |fake| fake.files.list(&path, most)).await
    }

    async fn read(
        &self,
        instance: InstanceId,
        path: &[u8],
        from: u64,
        most: u64,
    ) -> Result<FileContent, FileError> {
        let path = in_workspace(path);
        self.on_files(instance, move |fake| {
            let content = fake.files.read(&path)?;
            let cut = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(content.len());
            let part = content[cut(from)..cut(from.saturating_add(most))].to_vec();
            let metadata = fake.files.follow(&path)?.metadata();
            Ok(FileContent { metadata, pieces: Box::new(InMemoryContent::new(part)) })
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
        let (path, now, written) = (in_workspace(path), self.now(), bytes.len() as u64);
        self.on_files(instance, move |fake| fake.files.write(path, mode, bytes, now)).await?;
        Ok(written)
    }

    async fn make_directory(
        &self,
        instance: InstanceId,
        path: &[u8],
        parents: bool,
    ) -> Result<(), FileError> {
        let (path, now) = (in_workspace(path), self.now());
        self.on_files(instance, move |fake| {
            if parents {
                fake.files.make_directories(&path, now)
            } else {
                fake.files.make(path, Content::Directory, now)
            }
        })
        .await
    }

    async fn set_mode(&self, instance: InstanceId, path: &[u8], mode: u32) -> Result<(), FileError> {
        let path = in_workspace(path);
        self.on_files(instance, move |fake| fake.files.set_mode(&path, mode)).await
    }

    async fn make_link(&self, instance: InstanceId, path: &[u8], target: &[u8]) -> Result<(), FileError> {
        let (path, target, now) = (in_workspace(path), target.to_vec(), self.now());
        self.on_files(instance, move |fake| fake.files.make(path, Content::Link(target), now)).await
    }

    async fn rename(
        &self,
        instance: InstanceId,
        from: &[u8],
        to: &[u8],
        replace: bool,
    ) -> Result<(), FileError> {
        let (from, to) = (in_workspace(from), in_workspace(to));
        self.on_files(instance, move |fake| fake.files.rename(&from, &to, replace)).await
    }

    async fn remove(&self, instance: InstanceId, path: &[u8], recursive: bool) -> Result<u64, FileError> {
        let path = in_workspace(path);
        self.on_files(instance, move |fake| fake.files.remove(&path, recursive)).await
    }

    async fn watch(&self, _instance: InstanceId, path: &[u8]) -> Result<Box<dyn FileChanges>, FileError> {
        let path = String::from_utf8_lossy(path).into_owned();
        Err(FileError::Denied { why: format!("the fake watches no directories: {path}") })
    }
}

fn in_workspace(path: &[u8]) -> Vec<u8> {
    absolute(WORKING_DIRECTORY, path)
}

fn no_answer() -> FileError {
    FileError::NoAnswer { why: "injected fault: no answer".into() }
}
