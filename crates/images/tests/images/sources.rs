//! A directory and tar archives, plain and compressed, as an image of one layer.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use pinfold_images::{FindError, ImportError, LAYER_IDS_FIRST};

use super::archive::{Archive, Entry, gzip, zstd};
use super::stage::{Stage, chain, names_in};

fn small() -> Archive {
    Archive::new()
        .directory("./")
        .directory("./bin")
        .file("./bin/hello", "hello\n")
        .symlink("./sh", "bin/hello")
}

#[test]
fn a_tar_becomes_an_image_whether_plain_or_compressed() {
    let stage = Stage::new();
    for (name, bytes) in
        [("plain", small().done()), ("gzip", gzip(&small().done())), ("zstd", zstd(&small().done()))]
    {
        let image = stage.import(&bytes, name).unwrap();

        let root = stage.images.layers(&image.id).unwrap().remove(0);
        assert_eq!(fs::read_to_string(root.join("bin/hello")).unwrap(), "hello\n", "{name}");
        assert_eq!(fs::read_link(root.join("sh")).unwrap().to_str(), Some("bin/hello"));
        assert_eq!(image.bytes, 6);
        assert_eq!(stage.images.find(name).unwrap(), image);
    }
    assert_eq!(stage.images.list().unwrap().len(), 3);
    stage.assert_nothing_unfinished();
}

#[test]
fn a_directory_becomes_an_image() {
    let stage = Stage::new();
    let source = tempfile::tempdir().unwrap();
    fs::create_dir_all(source.path().join("usr/bin")).unwrap();
    fs::write(source.path().join("usr/bin/tool"), "tool").unwrap();
    fs::set_permissions(source.path().join("usr/bin/tool"), fs::Permissions::from_mode(0o4755)).unwrap();
    fs::hard_link(source.path().join("usr/bin/tool"), source.path().join("again")).unwrap();
    symlink("/etc/shadow", source.path().join("elsewhere")).unwrap();
    let long = format!("{}/{}", "d".repeat(200), "f".repeat(200));
    fs::create_dir(source.path().join("d".repeat(200))).unwrap();
    fs::write(source.path().join(&long), "long").unwrap();

    let image = stage.images.import(source.path(), "team/app:1.2").unwrap();

    let root = stage.images.layers(&image.id).unwrap().remove(0);
    assert_eq!(fs::read_to_string(root.join("again")).unwrap(), "tool");
    assert_eq!(fs::read_to_string(root.join(&long)).unwrap(), "long");
    assert_eq!(fs::read_link(root.join("elsewhere")).unwrap().to_str(), Some("/etc/shadow"));
    let (tool, again) =
        (fs::metadata(root.join("usr/bin/tool")).unwrap(), fs::metadata(root.join("again")).unwrap());
    assert_eq!(tool.ino(), again.ino());
    assert_eq!(tool.mode() & 0o7777, 0o755, "a set-id bit was kept");
    assert_eq!(stage.images.import(source.path(), "twin").unwrap().id, image.id);
    stage.assert_nothing_unfinished();
}

#[test]
fn every_root_has_the_directories_that_things_are_mounted_on() {
    let stage = Stage::new();

    let root = stage.root_of(&Archive::new().file("x", "").done());

    assert_eq!(names_in(&root), ["dev", "etc", "proc", "run", "sys", "tmp", "usr", "workspace", "x"]);
    assert_eq!(fs::metadata(root.join("tmp")).unwrap().mode() & 0o7777, 0o1777);
}

#[test]
fn owners_are_kept_in_a_range_of_their_own() {
    let stage = Stage::new();
    let owned = |path: &'static str, owner| Entry { path: path.as_bytes(), owner, ..Entry::default() };

    let archive = Archive::new().entry(&owned("root", 0)).entry(&owned("user", 1000));
    let root = stage.root_of(&archive.entry(&owned("far", 65_536)).done());

    let owner = |name: &str| fs::metadata(root.join(name)).unwrap().uid() - LAYER_IDS_FIRST;
    assert_eq!((owner("root"), owner("user"), owner("far")), (0, 1000, 65_534));
}

#[test]
fn long_names_come_by_either_extension() {
    let stage = Stage::new();
    let (gnu, pax) = (format!("{}/gnu", "g".repeat(150)), format!("{}/pax", "p".repeat(150)));
    let mut gnu_name = gnu.clone().into_bytes();
    gnu_name.push(0);

    let archive = Archive::new().extension(b'L', &gnu_name).file("short", "gnu");
    let root = stage.root_of(&archive.pax(&[("path", pax.as_bytes())]).file("short", "pax").done());

    assert_eq!(fs::read_to_string(root.join(gnu)).unwrap(), "gnu");
    assert_eq!(fs::read_to_string(root.join(pax)).unwrap(), "pax");
}

#[test]
fn names_that_are_not_utf_8_are_kept_as_they_are() {
    let stage = Stage::new();
    let name = b"caf\xe9";

    let root = stage.root_of(&Archive::new().entry(&Entry { path: name, ..Entry::default() }).done());

    assert!(root.join(std::ffi::OsStr::from_bytes(name)).exists());
}

#[test]
fn of_two_entries_with_one_name_the_later_counts() {
    let stage = Stage::new();

    let root = stage.root_of(&Archive::new().file("x", "first").symlink("x", "y").file("x", "second").done());

    assert_eq!(fs::read_to_string(root.join("x")).unwrap(), "second");
    assert!(!root.join("y").exists());
}

#[test]
fn the_same_again_changes_nothing_and_other_content_needs_another_name() {
    let stage = Stage::new();
    let image = stage.import(&small().done(), "app").unwrap();

    assert_eq!(stage.import(&small().done(), "app").unwrap(), image);
    let error = stage.import(&Archive::new().file("other", "").done(), "app").unwrap_err();

    assert!(matches!(error, ImportError::NameTaken { .. }), "{error}");
    assert_eq!(stage.images.list().unwrap(), [image]);
    stage.assert_nothing_unfinished();
}

#[test]
fn an_image_is_found_by_name_by_id_and_by_the_beginning_of_its_id() {
    let stage = Stage::new();
    let image = stage.import(&small().done(), "app").unwrap();

    for asked in ["app", &image.id.to_string(), image.id.hex(), image.id.short(), &image.id.hex()[..6]] {
        assert_eq!(stage.images.find(asked).unwrap(), image, "{asked}");
    }
    for asked in ["host", "other", &image.id.hex()[..5], "", "../x"] {
        assert!(matches!(stage.images.find(asked), Err(FindError::Missing { .. })), "{asked}");
    }
}

#[test]
fn two_imports_at_once_of_the_same_thing_are_one_image() {
    let stage = Stage::new();
    let source = stage.path("source");
    fs::write(&source, small().done()).unwrap();

    let images: Vec<_> = std::thread::scope(|scope| {
        let import =
            || stage.images.import(&source, "app").unwrap_or_else(|error| panic!("{}", chain(&error)));
        let threads: Vec<_> = (0..6).map(|_| scope.spawn(import)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });

    assert!(images.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(stage.layer_count(), 1);
    stage.assert_nothing_unfinished();
}

#[test]
fn what_is_neither_file_nor_directory_is_no_source() {
    let stage = Stage::new();

    let fifo = stage.path("source");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
    let from_fifo = stage.images.import(&fifo, "app").unwrap_err();
    let from_nothing = stage.images.import(&stage.path("nothing"), "app").unwrap_err();

    assert!(matches!(from_fifo, ImportError::NeitherFileNorDirectory { .. }), "{from_fifo}");
    assert!(matches!(from_nothing, ImportError::Open { .. }), "{from_nothing}");
}
