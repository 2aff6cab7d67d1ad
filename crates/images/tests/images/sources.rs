//! Import of directories and of plain and compressed tar archives as single-layer images.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use pinfold_images::{FindError, ImportError, LAYER_IDS_FIRST};

use super::archive::{Archive, Entry, gzip, zstd};
use super::fixture::{Fixture, chain, names_in};

fn small() -> Archive {
    Archive::new()
        .directory("./")
        .directory("./bin")
        .file("./bin/hello", "hello\n")
        .symlink("./sh", "bin/hello")
}

#[test]
fn a_tar_becomes_an_image_whether_plain_or_compressed() {
    let fixture = Fixture::new();
    for (name, bytes) in
        [("plain", small().done()), ("gzip", gzip(&small().done())), ("zstd", zstd(&small().done()))]
    {
        let image = fixture.import(&bytes, name).unwrap();

        let root = fixture.images.layers(&image.id).unwrap().remove(0);
        assert_eq!(fs::read_to_string(root.join("bin/hello")).unwrap(), "hello\n", "{name}");
        assert_eq!(fs::read_link(root.join("sh")).unwrap().to_str(), Some("bin/hello"));
        assert_eq!(image.bytes, 6);
        assert_eq!(fixture.images.find(name).unwrap(), image);
    }
    assert_eq!(fixture.images.list().unwrap().len(), 3);
    fixture.assert_nothing_unfinished();
}

#[test]
fn a_directory_becomes_an_image() {
    let fixture = Fixture::new();
    let source = tempfile::tempdir().unwrap();
    fs::create_dir_all(source.path().join("usr/bin")).unwrap();
    fs::write(source.path().join("usr/bin/tool"), "tool").unwrap();
    fs::set_permissions(source.path().join("usr/bin/tool"), fs::Permissions::from_mode(0o4755)).unwrap();
    fs::hard_link(source.path().join("usr/bin/tool"), source.path().join("again")).unwrap();
    symlink("/etc/shadow", source.path().join("elsewhere")).unwrap();
    let long = format!("{}/{}", "d".repeat(200), "f".repeat(200));
    fs::create_dir(source.path().join("d".repeat(200))).unwrap();
    fs::write(source.path().join(&long), "long").unwrap();

    let image = fixture.images.import(source.path(), "team/app:1.2").unwrap();

    let root = fixture.images.layers(&image.id).unwrap().remove(0);
    assert_eq!(fs::read_to_string(root.join("again")).unwrap(), "tool");
    assert_eq!(fs::read_to_string(root.join(&long)).unwrap(), "long");
    assert_eq!(fs::read_link(root.join("elsewhere")).unwrap().to_str(), Some("/etc/shadow"));
    let (tool, again) =
        (fs::metadata(root.join("usr/bin/tool")).unwrap(), fs::metadata(root.join("again")).unwrap());
    assert_eq!(tool.ino(), again.ino());
    assert_eq!(tool.mode() & 0o7777, 0o755, "a set-id bit was kept");
    assert_eq!(fixture.images.import(source.path(), "twin").unwrap().id, image.id);
    fixture.assert_nothing_unfinished();
}

#[test]
fn every_root_has_the_mount_point_directories() {
    let fixture = Fixture::new();

    let root = fixture.root_of(&Archive::new().file("x", "").done());

    assert_eq!(names_in(&root), ["dev", "etc", "proc", "run", "sys", "tmp", "usr", "workspace", "x"]);
    assert_eq!(fs::metadata(root.join("tmp")).unwrap().mode() & 0o7777, 0o1777);
}

#[test]
fn owners_are_shifted_into_the_layer_id_range() {
    let fixture = Fixture::new();
    let owned = |path: &'static str, owner| Entry { path: path.as_bytes(), owner, ..Entry::default() };

    let archive = Archive::new().entry(&owned("root", 0)).entry(&owned("user", 1000));
    let root = fixture.root_of(&archive.entry(&owned("far", 65_536)).done());

    let owner = |name: &str| fs::metadata(root.join(name)).unwrap().uid() - LAYER_IDS_FIRST;
    assert_eq!((owner("root"), owner("user"), owner("far")), (0, 1000, 65_534));
}

#[test]
fn long_names_are_read_from_gnu_and_pax_extensions() {
    let fixture = Fixture::new();
    let (gnu, pax) = (format!("{}/gnu", "g".repeat(150)), format!("{}/pax", "p".repeat(150)));
    let mut gnu_name = gnu.clone().into_bytes();
    gnu_name.push(0);

    let archive = Archive::new().extension(b'L', &gnu_name).file("short", "gnu");
    let root = fixture.root_of(&archive.pax(&[("path", pax.as_bytes())]).file("short", "pax").done());

    assert_eq!(fs::read_to_string(root.join(gnu)).unwrap(), "gnu");
    assert_eq!(fs::read_to_string(root.join(pax)).unwrap(), "pax");
}

#[test]
fn names_that_are_not_utf_8_are_kept_unchanged() {
    let fixture = Fixture::new();
    let name = b"caf\xe9";

    let root = fixture.root_of(&Archive::new().entry(&Entry { path: name, ..Entry::default() }).done());

    assert!(root.join(std::ffi::OsStr::from_bytes(name)).exists());
}

#[test]
fn the_later_of_two_entries_with_one_name_wins() {
    let fixture = Fixture::new();

    let root =
        fixture.root_of(&Archive::new().file("x", "first").symlink("x", "y").file("x", "second").done());

    assert_eq!(fs::read_to_string(root.join("x")).unwrap(), "second");
    assert!(!root.join("y").exists());
}

#[test]
fn importing_the_same_again_changes_nothing_and_other_content_under_the_name_is_refused() {
    let fixture = Fixture::new();
    let image = fixture.import(&small().done(), "app").unwrap();

    assert_eq!(fixture.import(&small().done(), "app").unwrap(), image);
    let error = fixture.import(&Archive::new().file("other", "").done(), "app").unwrap_err();

    assert!(matches!(error, ImportError::NameTaken { .. }), "{error}");
    assert_eq!(fixture.images.list().unwrap(), [image]);
    fixture.assert_nothing_unfinished();
}

#[test]
fn an_image_is_found_by_name_by_id_and_by_the_beginning_of_its_id() {
    let fixture = Fixture::new();
    let image = fixture.import(&small().done(), "app").unwrap();

    for query in ["app", &image.id.to_string(), image.id.hex(), image.id.short(), &image.id.hex()[..6]] {
        assert_eq!(fixture.images.find(query).unwrap(), image, "{query}");
    }
    for query in ["host", "other", &image.id.hex()[..5], "", "../x"] {
        assert!(matches!(fixture.images.find(query), Err(FindError::Missing { .. })), "{query}");
    }
}

#[test]
fn concurrent_imports_of_the_same_source_make_one_image() {
    let fixture = Fixture::new();
    let source = fixture.path("source");
    fs::write(&source, small().done()).unwrap();

    let images: Vec<_> = std::thread::scope(|scope| {
        let import =
            || fixture.images.import(&source, "app").unwrap_or_else(|error| panic!("{}", chain(&error)));
        let threads: Vec<_> = (0..6).map(|_| scope.spawn(import)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });

    assert!(images.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(fixture.layer_count(), 1);
    fixture.assert_nothing_unfinished();
}

#[test]
fn a_source_that_is_neither_file_nor_directory_is_refused() {
    let fixture = Fixture::new();

    let fifo = fixture.path("source");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
    let from_fifo = fixture.images.import(&fifo, "app").unwrap_err();
    let from_nothing = fixture.images.import(&fixture.path("nothing"), "app").unwrap_err();

    assert!(matches!(from_fifo, ImportError::NeitherFileNorDirectory { .. }), "{from_fifo}");
    assert!(matches!(from_nothing, ImportError::Open { .. }), "{from_nothing}");
}
