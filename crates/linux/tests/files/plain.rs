//! What every user expects of files.

use std::time::Duration;

use pinfold_provider::{ChangeKind, FileError, FileKind, Files, Pieces, Whole};

use crate::stage::{BODY, Stage};

/// Content in many pieces that no single one of is large.
struct Counted {
    left: u32,
}

#[async_trait::async_trait]
impl Pieces for Counted {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        Ok(Some(vec![b'x'; 100_000]))
    }
}

#[test]
fn what_is_written_is_seen_inside_and_read_back() {
    Stage::play(async |stage| {
        let written = stage.provider.write(BODY, b"notes", None, &mut Whole::new(b"hello".to_vec())).await;

        assert_eq!(written, Ok(5));
        assert_eq!(stage.inside("test \"$(cat /workspace/notes)\" = hello").await.exit_code, Some(0));
        assert_eq!(stage.read_all("/workspace/notes").await, b"hello");
    });
}

#[test]
fn a_large_file_goes_in_and_out_in_pieces() {
    Stage::play(async |stage| {
        let written =
            stage.provider.write(BODY, b"/workspace/big", Some(0o600), &mut Counted { left: 200 }).await;

        assert_eq!(written, Ok(20_000_000));
        assert_eq!(stage.read_all("big").await.len(), 20_000_000);
        let told = stage.provider.stat(BODY, b"big").await.unwrap();
        assert_eq!((told.kind, told.size, told.mode), (FileKind::File, 20_000_000, 0o600));
    });
}

#[test]
fn a_part_of_a_file_can_be_read() {
    Stage::play(async |stage| {
        stage.inside("printf 0123456789 > /workspace/digits").await;

        let mut content = stage.provider.read(BODY, b"digits", 3, 4).await.unwrap();

        assert_eq!(content.pieces.next().await.unwrap(), Some(b"3456".to_vec()));
        assert_eq!(content.pieces.next().await.unwrap(), None);
    });
}

#[test]
fn a_file_that_is_replaced_keeps_its_mode_and_appears_whole() {
    Stage::play(async |stage| {
        stage.inside("cd /workspace; echo old > tool; chmod 751 tool").await;

        stage.provider.write(BODY, b"tool", None, &mut Whole::new(b"new".to_vec())).await.unwrap();

        assert_eq!(stage.provider.stat(BODY, b"tool").await.unwrap().mode, 0o751);
        assert_eq!(stage.names_in("/workspace").await, ["tool"]);
    });
}

#[test]
fn a_write_whose_content_fails_leaves_the_old_file_and_no_draft() {
    struct Broken(bool);
    #[async_trait::async_trait]
    impl Pieces for Broken {
        async fn next(&mut self) -> Result<Option<Vec<u8>>, FileError> {
            let first = std::mem::take(&mut self.0);
            if first {
                Ok(Some(b"half".to_vec()))
            } else {
                Err(FileError::NoContent { why: "cut off".into() })
            }
        }
    }
    Stage::play(async |stage| {
        stage.inside("echo old > /workspace/kept").await;

        let written = stage.provider.write(BODY, b"kept", None, &mut Broken(true)).await;

        assert_eq!(written, Err(FileError::NoContent { why: "cut off".into() }));
        assert_eq!(stage.read_all("kept").await, b"old\n");
        until_only(stage, "/workspace", &["kept"]).await;
    });
}

#[test]
fn modes_are_set_and_links_are_made_and_no_link_is_followed() {
    Stage::play(async |stage| {
        let files = &stage.provider;
        stage.inside("cd /workspace; mkdir d; echo x > file").await;
        files.make_link(BODY, b"link", b"file").await.unwrap();
        files.make_link(BODY, b"out", b"/../../etc").await.unwrap();

        files.set_mode(BODY, b"d", 0o1710).await.unwrap();
        files.set_mode(BODY, b"file", 0o640).await.unwrap();
        let through_link = files.set_mode(BODY, b"link", 0o777).await;

        assert_eq!(files.stat(BODY, b"d").await.unwrap().mode, 0o1710);
        assert_eq!(files.stat(BODY, b"file").await.unwrap().mode, 0o640);
        assert!(through_link.is_err(), "{through_link:?}");
        assert_eq!(files.stat(BODY, b"out").await.unwrap().target, Some(b"/../../etc".to_vec()));
        assert!(matches!(files.make_link(BODY, b"file", b"x").await, Err(FileError::Exists { .. })));
    });
}

#[test]
fn directories_are_made_listed_renamed_and_removed() {
    Stage::play(async |stage| {
        let files = &stage.provider;
        files.make_directory(BODY, b"a/b/c", true).await.unwrap();
        files.make_directory(BODY, b"a/b/c", true).await.unwrap();
        assert!(matches!(files.make_directory(BODY, b"a/b/c", false).await, Err(FileError::Exists { .. })));
        stage.inside("cd /workspace/a; ln -s nowhere link; echo x > file; touch \"$(printf '\\377')\"").await;

        let mut listing = files.list(BODY, b"a", 100).await.unwrap().entries;
        listing.sort_by(|one, other| one.name.cmp(&other.name));
        let told: Vec<_> = listing.iter().map(|entry| (entry.name.as_slice(), entry.metadata.kind)).collect();
        let expected: [(&[u8], FileKind); 4] = [
            (b"b", FileKind::Directory),
            (b"file", FileKind::File),
            (b"link", FileKind::Link),
            (b"\xff", FileKind::File),
        ];
        assert_eq!(told, expected);
        assert_eq!(listing[2].metadata.target, Some(b"nowhere".to_vec()));
        assert!(files.list(BODY, b"a", 2).await.unwrap().more);

        files.rename(BODY, b"a/file", b"a/b/moved", false).await.unwrap();
        assert!(matches!(
            files.rename(BODY, b"a/link", b"a/b/moved", false).await,
            Err(FileError::Exists { .. })
        ));
        files.rename(BODY, b"a/link", b"a/b/moved", true).await.unwrap();
        assert!(matches!(files.remove(BODY, b"a", false).await, Err(FileError::NotEmpty { .. })));
        assert_eq!(files.remove(BODY, b"a", true).await, Ok(5));
        assert_eq!(stage.names_in("/workspace").await, [] as [&str; 0]);
    });
}

#[test]
fn each_refusal_says_which() {
    Stage::play(async |stage| {
        let files = &stage.provider;
        stage.inside("cd /workspace; mkdir d; echo x > f").await;
        let read = async |path: &[u8]| files.read(BODY, path, 0, 1).await.err();

        assert!(matches!(read(b"missing").await, Some(FileError::NotFound { .. })));
        assert!(matches!(read(b"d").await, Some(FileError::IsADirectory { .. })));
        assert!(matches!(read(b"f/below").await, Some(FileError::NotADirectory { .. })));
        assert!(matches!(read(b"").await, Some(FileError::BadPath { .. })));
        assert!(matches!(read(b"nul\0nul").await, Some(FileError::BadPath { .. })));
        assert!(matches!(read(&[b'x'; 5_000]).await, Some(FileError::BadPath { .. })));
        assert!(matches!(files.list(BODY, b"f", 1).await, Err(FileError::NotADirectory { .. })));
        let write = files.write(BODY, b"/usr/new", None, &mut Whole::new(Vec::new())).await;
        assert!(matches!(write, Err(FileError::Denied { .. })), "{write:?}");
        assert!(matches!(
            files.remove(BODY, b"/proc", true).await,
            Err(FileError::InUse { .. } | FileError::Denied { .. })
        ));
        assert!(matches!(files.remove(BODY, b"/", true).await, Err(FileError::BadPath { .. })));
        assert!(matches!(files.stat(BODY, b"d/..").await, Ok(told) if told.kind == FileKind::Directory));
    });
}

#[test]
fn changes_are_told_until_the_directory_is_gone() {
    Stage::play(async |stage| {
        stage.inside("mkdir /workspace/seen").await;
        let mut changes = stage.provider.watch(BODY, b"seen").await.unwrap();
        stage.inside("cd /workspace; echo x > seen/one; rm seen/one; rmdir seen").await;

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

/// What is inside a directory, once whoever was still at it is done.
pub(crate) async fn until_only(stage: &Stage, path: &str, expected: &[&str]) {
    let end = tokio::time::Instant::now() + Duration::from_secs(20);
    while stage.names_in(path).await != expected {
        assert!(tokio::time::Instant::now() < end, "{:?}", stage.names_in(path).await);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
