//! Ordinary file operations.

use std::time::Duration;

use pinfold_provider::{ChangeKind, ContentStream, FileError, FileKind, Files, InMemoryContent};

use crate::fixture::{Fixture, INSTANCE};

/// Content in many small pieces.
struct Counted {
    left: u32,
}

#[async_trait::async_trait]
impl ContentStream for Counted {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        Ok(Some(vec![b'x'; 100_000]))
    }
}

#[test]
fn a_written_file_is_visible_inside_and_readable() {
    Fixture::run(async |fixture| {
        let written = fixture
            .provider
            .write(INSTANCE, b"notes", None, &mut InMemoryContent::new(b"hello".to_vec()))
            .await;

        assert_eq!(written, Ok(5));
        assert_eq!(fixture.sh("test \"$(cat /workspace/notes)\" = hello").await.exit_code, Some(0));
        assert_eq!(fixture.read_all("/workspace/notes").await, b"hello");
    });
}

#[test]
fn a_large_file_goes_in_and_out_in_pieces() {
    Fixture::run(async |fixture| {
        let written = fixture
            .provider
            .write(INSTANCE, b"/workspace/big", Some(0o600), &mut Counted { left: 200 })
            .await;

        assert_eq!(written, Ok(20_000_000));
        assert_eq!(fixture.read_all("big").await.len(), 20_000_000);
        let found = fixture.provider.stat(INSTANCE, b"big").await.unwrap();
        assert_eq!((found.kind, found.size, found.mode), (FileKind::File, 20_000_000, 0o600));
    });
}

#[test]
fn a_part_of_a_file_can_be_read() {
    Fixture::run(async |fixture| {
        fixture.sh("printf 0123456789 > /workspace/digits").await;

        let mut content = fixture.provider.read(INSTANCE, b"digits", 3, 4).await.unwrap();

        assert_eq!(content.pieces.next().await.unwrap(), Some(b"3456".to_vec()));
        assert_eq!(content.pieces.next().await.unwrap(), None);
    });
}

#[test]
fn a_file_that_is_replaced_keeps_its_mode_and_appears_whole() {
    Fixture::run(async |fixture| {
        fixture.sh("cd /workspace; echo old > tool; chmod 751 tool").await;

        fixture
            .provider
            .write(INSTANCE, b"tool", None, &mut InMemoryContent::new(b"new".to_vec()))
            .await
            .unwrap();

        assert_eq!(fixture.provider.stat(INSTANCE, b"tool").await.unwrap().mode, 0o751);
        assert_eq!(fixture.names_in("/workspace").await, ["tool"]);
    });
}

#[test]
fn a_write_whose_content_fails_leaves_the_old_file_and_no_draft() {
    struct Broken(bool);
    #[async_trait::async_trait]
    impl ContentStream for Broken {
        async fn next(&mut self) -> Result<Option<Vec<u8>>, FileError> {
            let first = std::mem::take(&mut self.0);
            if first {
                Ok(Some(b"half".to_vec()))
            } else {
                Err(FileError::NoContent { why: "cut off".into() })
            }
        }
    }
    Fixture::run(async |fixture| {
        fixture.sh("echo old > /workspace/kept").await;

        let written = fixture.provider.write(INSTANCE, b"kept", None, &mut Broken(true)).await;

        assert_eq!(written, Err(FileError::NoContent { why: "cut off".into() }));
        assert_eq!(fixture.read_all("kept").await, b"old\n");
        until_only(fixture, "/workspace", &["kept"]).await;
    });
}

#[test]
fn modes_are_set_and_links_are_made_and_no_link_is_followed() {
    Fixture::run(async |fixture| {
        let files = &fixture.provider;
        fixture.sh("cd /workspace; mkdir d; echo x > file").await;
        files.make_link(INSTANCE, b"link", b"file").await.unwrap();
        files.make_link(INSTANCE, b"out", b"/../../etc").await.unwrap();

        files.set_mode(INSTANCE, b"d", 0o1710).await.unwrap();
        files.set_mode(INSTANCE, b"file", 0o640).await.unwrap();
        let through_link = files.set_mode(INSTANCE, b"link", 0o777).await;

        assert_eq!(files.stat(INSTANCE, b"d").await.unwrap().mode, 0o1710);
        assert_eq!(files.stat(INSTANCE, b"file").await.unwrap().mode, 0o640);
        assert!(through_link.is_err(), "{through_link:?}");
        assert_eq!(files.stat(INSTANCE, b"out").await.unwrap().target, Some(b"/../../etc".to_vec()));
        assert!(matches!(files.make_link(INSTANCE, b"file", b"x").await, Err(FileError::Exists { .. })));
    });
}

#[test]
fn directories_are_made_listed_renamed_and_removed() {
    Fixture::run(async |fixture| {
        let files = &fixture.provider;
        files.make_directory(INSTANCE, b"a/b/c", true).await.unwrap();
        files.make_directory(INSTANCE, b"a/b/c", true).await.unwrap();
        assert!(matches!(
            files.make_directory(INSTANCE, b"a/b/c", false).await,
            Err(FileError::Exists { .. })
        ));
        fixture.sh("cd /workspace/a; ln -s nowhere link; echo x > file; touch \"$(printf '\\377')\"").await;

        let mut listing = files.list(INSTANCE, b"a", 100).await.unwrap().entries;
        listing.sort_by(|one, other| one.name.cmp(&other.name));
        let found: Vec<_> =
            listing.iter().map(|entry| (entry.name.as_slice(), entry.metadata.kind)).collect();
        let expected: [(&[u8], FileKind); 4] = [
            (b"b", FileKind::Directory),
            (b"file", FileKind::File),
            (b"link", FileKind::Link),
            (b"\xff", FileKind::File),
        ];
        assert_eq!(found, expected);
        assert_eq!(listing[2].metadata.target, Some(b"nowhere".to_vec()));
        assert!(files.list(INSTANCE, b"a", 2).await.unwrap().more);

        files.rename(INSTANCE, b"a/file", b"a/b/moved", false).await.unwrap();
        assert!(matches!(
            files.rename(INSTANCE, b"a/link", b"a/b/moved", false).await,
            Err(FileError::Exists { .. })
        ));
        files.rename(INSTANCE, b"a/link", b"a/b/moved", true).await.unwrap();
        assert!(matches!(files.remove(INSTANCE, b"a", false).await, Err(FileError::NotEmpty { .. })));
        assert_eq!(files.remove(INSTANCE, b"a", true).await, Ok(5));
        assert_eq!(fixture.names_in("/workspace").await, [] as [&str; 0]);
    });
}

#[test]
fn each_file_error_has_its_own_kind() {
    Fixture::run(async |fixture| {
        let files = &fixture.provider;
        fixture.sh("cd /workspace; mkdir d; echo x > f").await;
        let read = async |path: &[u8]| files.read(INSTANCE, path, 0, 1).await.err();

        assert!(matches!(read(b"missing").await, Some(FileError::NotFound { .. })));
        assert!(matches!(read(b"d").await, Some(FileError::IsADirectory { .. })));
        assert!(matches!(read(b"f/below").await, Some(FileError::NotADirectory { .. })));
        assert!(matches!(read(b"").await, Some(FileError::BadPath { .. })));
        assert!(matches!(read(b"nul\0nul").await, Some(FileError::BadPath { .. })));
        assert!(matches!(read(&[b'x'; 5_000]).await, Some(FileError::BadPath { .. })));
        assert!(matches!(files.list(INSTANCE, b"f", 1).await, Err(FileError::NotADirectory { .. })));
        let write = files.write(INSTANCE, b"/usr/new", None, &mut InMemoryContent::new(Vec::new())).await;
        assert!(matches!(write, Err(FileError::Denied { .. })), "{write:?}");
        assert!(matches!(
            files.remove(INSTANCE, b"/proc", true).await,
            Err(FileError::InUse { .. } | FileError::Denied { .. })
        ));
        assert!(matches!(files.remove(INSTANCE, b"/", true).await, Err(FileError::BadPath { .. })));
        assert!(
            matches!(files.stat(INSTANCE, b"d/..").await, Ok(found) if found.kind == FileKind::Directory)
        );
    });
}

#[test]
fn changes_are_reported_until_the_directory_is_gone() {
    Fixture::run(async |fixture| {
        fixture.sh("mkdir /workspace/seen").await;
        let mut changes = fixture.provider.watch(INSTANCE, b"seen").await.unwrap();
        fixture.sh("cd /workspace; echo x > seen/one; rm seen/one; rmdir seen").await;

        let mut all = Vec::new();
        let heard = tokio::time::timeout(Duration::from_secs(20), async {
            while let Some(more) = changes.next().await.unwrap() {
                all.extend(more.into_iter().map(|change| change.kind));
            }
        });
        heard.await.unwrap();

        assert_eq!(all.first(), Some(&ChangeKind::Appeared));
        assert!(all.contains(&ChangeKind::Vanished), "{all:?}");
        assert_eq!(all.last(), Some(&ChangeKind::Gone));
    });
}

/// Waits until a directory holds exactly these names.
pub(crate) async fn until_only(fixture: &Fixture, path: &str, expected: &[&str]) {
    let end = tokio::time::Instant::now() + Duration::from_secs(20);
    while fixture.names_in(path).await != expected {
        assert!(tokio::time::Instant::now() < end, "{:?}", fixture.names_in(path).await);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
