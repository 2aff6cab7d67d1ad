//! File access inside an instance: the same files that its processes have.

use super::harness::{Harness, fails};
use crate::{FileContent, FileError, FileKind, InMemoryContent, InstanceId};

const CONTENT: &[u8] = b"0123456789";

async fn write(harness: &Harness, instance: InstanceId, path: &[u8], content: &[u8]) {
    let content = &mut InMemoryContent::new(content.to_vec());
    let written = harness.provider.files().write(instance, path, None, content).await;
    assert!(written.is_ok(), "{} was not written: {written:?}", String::from_utf8_lossy(path));
}

/// Reads from an offset on.
async fn try_read(
    harness: &Harness,
    instance: InstanceId,
    path: &[u8],
    (from, most): (u64, u64),
) -> Result<Vec<u8>, FileError> {
    let FileContent { mut pieces, .. } = harness.provider.files().read(instance, path, from, most).await?;
    let mut content = Vec::new();
    while let Some(piece) = pieces.next().await? {
        content.extend(piece);
    }
    Ok(content)
}

async fn read(harness: &Harness, instance: InstanceId, path: &[u8]) -> Result<Vec<u8>, FileError> {
    try_read(harness, instance, path, (0, 1 << 20)).await
}

fn not_found<T: std::fmt::Debug>(answer: &Result<T, FileError>) {
    assert!(matches!(answer, Err(FileError::NotFound { .. })), "a missing file was found: {answer:?}");
}

pub(super) async fn a_written_file_is_read_back_whole_and_in_part(harness: Harness) {
    let instance = harness.started().await;
    let files = harness.provider.files();

    let content = &mut InMemoryContent::new(CONTENT.to_vec());
    let written = files.write(instance, b"/workspace/file", Some(0o640), content).await;

    assert_eq!(written, Ok(10));
    assert_eq!(read(&harness, instance, b"/workspace/file").await, Ok(CONTENT.to_vec()));
    assert_eq!(read(&harness, instance, b"file").await, Ok(CONTENT.to_vec()), "by a relative path");
    let part = try_read(&harness, instance, b"/workspace/file", (3, 4)).await;
    assert_eq!(part, Ok(b"3456".to_vec()));
    let metadata = files.stat(instance, b"/workspace/file").await.map(|it| (it.kind, it.size, it.mode));
    assert_eq!(metadata, Ok((FileKind::File, 10, 0o640)));
}

pub(super) async fn a_listing_has_every_entry_or_says_that_there_are_more(harness: Harness) {
    let instance = harness.started().await;
    let files = harness.provider.files();
    assert_eq!(files.make_directory(instance, b"/workspace/d/e", true).await, Ok(()));
    for name in ["a", "b"] {
        write(&harness, instance, format!("/workspace/d/{name}").as_bytes(), CONTENT).await;
    }
    let list = async |most| {
        let listed = files.list(instance, b"/workspace/d", most).await;
        let listing = listed.unwrap_or_else(|error| panic!("the directory was not listed: {error}"));
        let mut names: Vec<_> = listing.entries.into_iter().map(|entry| entry.name).collect();
        names.sort();
        (names, listing.more)
    };

    let (names, more) = list(3).await;
    let (first, more_than_two) = list(2).await;

    assert_eq!((names, more), ([b"a", b"b", b"e"].map(|name| name.to_vec()).to_vec(), false));
    assert_eq!((first.len(), more_than_two), (2, true));
}

pub(super) async fn a_renamed_file_has_only_its_new_name(harness: Harness) {
    let instance = harness.started().await;
    let files = harness.provider.files();
    write(&harness, instance, b"old", b"first").await;
    write(&harness, instance, b"taken", b"second").await;

    let refused = files.rename(instance, b"old", b"taken", false).await;
    assert!(matches!(refused, Err(FileError::Exists { .. })), "a file was replaced: {refused:?}");
    assert_eq!(read(&harness, instance, b"taken").await, Ok(b"second".to_vec()));
    assert_eq!(files.rename(instance, b"old", b"new", false).await, Ok(()));

    assert_eq!(read(&harness, instance, b"new").await, Ok(b"first".to_vec()));
    not_found(&read(&harness, instance, b"old").await);
}

pub(super) async fn a_directory_with_entries_is_only_removed_recursively(harness: Harness) {
    let instance = harness.started().await;
    let files = harness.provider.files();
    assert_eq!(files.make_directory(instance, b"d", false).await, Ok(()));
    write(&harness, instance, b"d/file", CONTENT).await;

    let refused = files.remove(instance, b"d", false).await;
    assert!(matches!(refused, Err(FileError::NotEmpty { .. })), "entries were removed: {refused:?}");
    assert_eq!(files.remove(instance, b"d", true).await, Ok(2));

    not_found(&files.stat(instance, b"d/file").await);
    not_found(&files.remove(instance, b"d", false).await);
}

pub(super) async fn impossible_file_requests_say_why(harness: Harness) {
    let instance = harness.started().await;
    let files = harness.provider.files();
    write(&harness, instance, b"file", CONTENT).await;

    not_found(&files.stat(instance, b"none").await);
    not_found(&read(&harness, instance, b"none").await);
    not_found(&files.list(instance, b"none", 1).await);
    not_found(&files.rename(instance, b"none", b"new", true).await);
    let below = files.write(instance, b"none/file", None, &mut InMemoryContent::new(Vec::new())).await;
    not_found(&below);
    let directory = read(&harness, instance, b"/workspace").await;
    assert!(matches!(directory, Err(FileError::IsADirectory { .. })), "{directory:?}");
    let listed = files.list(instance, b"file", 1).await;
    assert!(matches!(listed, Err(FileError::NotADirectory { .. })), "{listed:?}");
    let again = files.make_directory(instance, b"file", false).await;
    assert!(matches!(again, Err(FileError::Exists { .. })), "{again:?}");
}

pub(super) async fn a_link_is_followed_by_read_and_not_by_stat(harness: Harness) {
    let instance = harness.started().await;
    let files = harness.provider.files();
    write(&harness, instance, b"file", CONTENT).await;

    assert_eq!(files.make_link(instance, b"link", b"file").await, Ok(()));

    assert_eq!(read(&harness, instance, b"link").await, Ok(CONTENT.to_vec()));
    let metadata = files.stat(instance, b"link").await.map(|it| (it.kind, it.target));
    assert_eq!(metadata, Ok((FileKind::Link, Some(b"file".to_vec()))));
}

pub(super) async fn processes_and_file_requests_see_the_same_files(harness: Harness) {
    let instance = harness.started().await;
    write(&harness, instance, b"/workspace/in", b"from outside\n").await;

    harness.sh(instance, "cat in > out; echo from inside >> out").await;

    let seen = read(&harness, instance, b"/workspace/out").await;
    assert_eq!(seen, Ok(b"from outside\nfrom inside\n".to_vec()));
}

pub(super) async fn a_missing_instance_has_no_files(harness: Harness) {
    let ended = harness.started().await;
    write(&harness, ended, b"file", CONTENT).await;
    harness.stopped(ended).await;

    for instance in [ended, harness.fresh_instance()] {
        fails(&harness.provider.files().stat(instance, b"/workspace").await, "stat without an instance");
        fails(&read(&harness, instance, b"file").await, "reading without an instance");
    }
}
