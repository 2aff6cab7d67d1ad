//! Decompression bombs and other archives that exceed a limit: bytes, entries, depth, time, memory.

use std::fs;
use std::time::{Duration, Instant};

use pinfold_images::{ImportError, Limits, Refusal};

use super::archive::{Archive, Entry, gzip, zstd};
use super::fixture::{Fixture, names_in, unpacker};

fn zeros(bytes: usize) -> Vec<u8> {
    Archive::new().entry(&Entry { path: b"zeros", contents: &vec![0; bytes], ..Entry::default() }).done()
}

#[test]
fn a_decompression_bomb_is_refused() {
    let limits = Limits { ratio_begins_bytes: 1 << 20, ..Limits::default() };
    let fixture = Fixture::limited(limits);
    for bomb in [gzip(&zeros(8 << 20)), zstd(&zeros(8 << 20))] {
        assert_eq!(fixture.refused(&bomb), Refusal::Bomb { most: 200 });
    }
}

#[test]
fn a_bomb_after_the_end_of_the_archive_is_refused() {
    let fixture = Fixture::limited(Limits { ratio_begins_bytes: 1 << 20, ..Limits::default() });
    let mut archive = Archive::new().file("x", "").done();
    archive.extend(vec![0; 8 << 20]);

    assert_eq!(fixture.refused(&gzip(&archive)), Refusal::Bomb { most: 200 });
}

#[test]
fn files_that_exceed_the_total_together_are_refused() {
    let fixture = Fixture::limited(Limits { total_bytes: 100_000, ..Limits::default() });
    let contents = [b'x'; 30_000];
    let archive = (b'a'..b'g').fold(Archive::new(), |archive, name| {
        archive.entry(&Entry { path: &[name], contents: &contents, ..Entry::default() })
    });

    assert_eq!(fixture.refused(&archive.done()), Refusal::TooManyBytes { most: 100_000 });
}

#[test]
fn bytes_after_the_end_of_the_archive_count_toward_the_total() {
    let fixture = Fixture::limited(Limits { total_bytes: 100_000, ..Limits::default() });
    let mut archive = Archive::new().file("x", "").done();
    archive.extend(vec![b'x'; 100_000]);

    assert_eq!(fixture.refused(&archive), Refusal::TooManyBytes { most: 100_000 });
}

#[test]
fn a_declared_size_without_data_or_above_the_limit_is_refused() {
    let fixture = Fixture::new();
    let size = (8 << 30) - 1;
    let largest = Entry { path: b"x", size: Some(size), ..Entry::default() };
    let smaller = Fixture::limited(Limits { file_bytes: 1 << 20, ..Limits::default() });

    // Missing data means a truncated archive; a size above the limit is refused before reading.
    assert_eq!(fixture.refused(&Archive::new().entry(&largest).done()), Refusal::CutShort);
    let refusal = smaller.refused(&Archive::new().entry(&largest).done());

    assert_eq!(refusal, Refusal::FileTooBig { path: "x".to_owned(), bytes: size, most: 1 << 20 });
}

#[test]
fn a_sparse_file_in_an_archive_is_refused() {
    let fixture = Fixture::new();
    let by_gnu = Archive::new().kind("x", b'S').done();
    let records: [(&str, &[u8]); 2] = [("GNU.sparse.major", b"1"), ("GNU.sparse.realsize", b"1099511627776")];
    let by_pax = Archive::new().pax(&records).file("x", "").done();

    for archive in [by_gnu, by_pax] {
        assert_eq!(fixture.refused(&archive), Refusal::Sparse { path: "x".to_owned() });
    }
}

#[test]
fn a_huge_sparse_file_in_a_directory_is_refused() {
    let fixture = Fixture::new();
    let source = tempfile::tempdir().unwrap();
    fs::File::create(source.path().join("x")).unwrap().set_len(1 << 40).unwrap();

    let error = fixture.images.import(source.path(), "image").unwrap_err();

    let ImportError::Refused { source: refusal, .. } = error else { panic!("{error}") };
    assert!(matches!(refusal, Refusal::FileTooBig { bytes, .. } if bytes == 1 << 40), "{refusal}");
}

#[test]
fn too_many_entries_are_refused_implied_directories_included() {
    let fixture = Fixture::limited(Limits { entries: 1_000, ..Limits::default() });
    let archive = (0..1_001).fold(Archive::new(), |archive, number| archive.file(&number.to_string(), ""));
    // Each name implies many directories.
    let deep = |number: i32| format!("{number}{}", "/d".repeat(48));
    let deep = (0..21).fold(Archive::new(), |archive, number| archive.file(&deep(number), ""));

    for archive in [archive, deep] {
        let refusal = fixture.refused(&archive.done());
        assert_eq!(refusal, Refusal::TooManyEntries { most: 1_000 });
    }
}

#[test]
fn a_path_that_is_too_deep_or_too_long_is_refused() {
    let fixture = Fixture::new();
    let named = |path: String| Archive::new().pax(&[("path", path.as_bytes())]).file("x", "").done();

    let deep = fixture.refused(&named("d/".repeat(300)));
    let long = fixture.refused(&named(format!("{}x", "d".repeat(99) + "/").repeat(50)));
    let part = fixture.refused(&named("n".repeat(256)));
    let extension =
        fixture.refused(&Archive::new().extension(b'L', &vec![b'n'; 2 << 20]).file("x", "").done());

    assert!(matches!(deep, Refusal::TooDeep { depth: 300, most: 256, .. }), "{deep}");
    assert!(matches!(long, Refusal::NameTooLong { most: 4095, .. }), "{long}");
    assert!(matches!(part, Refusal::NameTooLong { bytes: 256, most: 255, .. }), "{part}");
    assert!(matches!(extension, Refusal::BadHeader { .. }), "{extension}");
}

#[test]
fn the_deepest_and_longest_allowed_path_is_imported_and_removed() {
    let fixture = Fixture::new();
    let deepest = format!("{}/x", vec!["d".repeat(15); 255].join("/"));

    let archive = Archive::new().pax(&[("path", deepest.as_bytes())]).file("x", "deep").done();
    fixture.import(&archive, "deep").unwrap();
    fixture.images.remove("deep", |_| vec![]).unwrap();

    assert_eq!(fixture.layer_count(), 0);
    fixture.assert_nothing_unfinished();
}

#[test]
fn an_unpacker_out_of_memory_fails_the_import_cleanly() {
    let fixture = Fixture::limited(Limits { memory_bytes: 1 << 20, ..Limits::default() });

    let error = fixture.import(&zeros(10), "image").unwrap_err();

    assert!(matches!(error, ImportError::UnpackerDied { .. } | ImportError::Refused { .. }), "{error}");
    fixture.assert_nothing_unfinished();
}

#[test]
fn an_unresponsive_unpacker_is_killed_at_its_deadline() {
    let fixture = Fixture::new();
    let mut idle = unpacker();
    idle.program = "/bin/sh".into();
    idle.arguments = vec!["-c".into(), "exec sleep 1000".into()];
    let images = pinfold_images::Images::open(fixture.path("images"), idle).unwrap();
    let images = images.with_limits(Limits { seconds: 1, ..Limits::default() });
    let began = Instant::now();

    // One archive fits into the pipe buffer, the other does not.
    for bytes in [0, 1 << 20] {
        fs::write(fixture.path("source"), zeros(bytes)).unwrap();
        let error = images.import(&fixture.path("source"), "image").unwrap_err();
        assert!(matches!(error, ImportError::TooSlow { seconds: 1, .. }), "{error}");
    }

    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!(names_in(&fixture.path("images/unfinished")), [""; 0]);
}
