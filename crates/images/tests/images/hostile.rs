//! Hostile archives. A canary file beside the images must never change.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use pinfold_images::Refusal;

use super::archive::{Archive, Entry, gzip, pax_records};
use super::fixture::Fixture;

#[test]
fn a_path_with_dot_dot_is_refused() {
    let fixture = Fixture::new();
    for path in ["../canary", "a/../../canary", "..", "a/..", "./../../../../canary", "/../canary"] {
        let refusal = fixture.refused(&Archive::new().file(path, "dead").done());

        assert!(matches!(refusal, Refusal::LeadsOutside { .. }), "{path}: {refusal}");
    }
}

#[test]
fn a_path_with_dot_dot_in_an_extension_is_refused() {
    let fixture = Fixture::new();
    let by_pax = Archive::new().pax(&[("path", b"../../../canary")]).file("x", "dead").done();
    let by_gnu = Archive::new().extension(b'L', b"../../../canary\0").file("x", "dead").done();

    for archive in [by_pax, by_gnu] {
        assert!(matches!(fixture.refused(&archive), Refusal::LeadsOutside { .. }));
    }
}

#[test]
fn an_absolute_path_is_taken_relative_to_the_image_root() {
    let fixture = Fixture::new();
    let canary = fixture.canary();

    let root =
        fixture.root_of(&Archive::new().pax(&[("path", canary.as_bytes())]).file("x", "inside").done());

    assert_eq!(fs::read_to_string(root.join(canary.trim_start_matches('/'))).unwrap(), "inside");
}

#[test]
fn a_file_below_a_symlink_is_refused() {
    let fixture = Fixture::new();
    let outside = fixture.path("");
    for target in [outside.to_str().unwrap(), "/", "../../../../../../..", "/proc/self/root"] {
        let archive = Archive::new().symlink("out", target).file("out/canary", "dead");

        let refusal = fixture.refused(&archive.done());

        assert!(matches!(refusal, Refusal::ThroughLink { .. }), "{target}: {refusal}");
    }
}

#[test]
fn a_file_replaces_a_symlink_of_the_same_name() {
    let fixture = Fixture::new();
    let canary = fixture.canary();

    let root = fixture.root_of(&Archive::new().symlink("x", &canary).file("x", "dead").done());

    assert!(fs::symlink_metadata(root.join("x")).unwrap().is_file());
}

#[test]
fn a_directory_replaces_a_symlink_of_the_same_name() {
    let fixture = Fixture::new();
    let outside = fixture.path("").to_str().unwrap().to_owned();

    let archive = Archive::new().symlink("x", &outside).directory("x").file("x/canary", "inside");
    let root = fixture.root_of(&archive.done());

    assert_eq!(fs::read_to_string(root.join("x/canary")).unwrap(), "inside");
}

#[test]
fn a_hard_link_to_a_file_outside_is_refused() {
    let fixture = Fixture::new();
    let canary = fixture.canary();
    for target in [canary.as_str(), "/etc/passwd"] {
        let archive = Archive::new().hard_link("x", target).file("x", "dead");

        let refusal = fixture.refused(&archive.done());

        assert!(matches!(refusal, Refusal::NoLinkTarget { .. }), "{target}: {refusal}");
    }
    let climbing = fixture.refused(&Archive::new().hard_link("x", "../canary").done());
    assert!(matches!(climbing, Refusal::LeadsOutside { .. }), "{climbing}");
}

#[test]
fn a_hard_link_target_below_a_symlink_is_refused() {
    let fixture = Fixture::new();
    let outside = fixture.path("").to_str().unwrap().to_owned();

    let refusal =
        fixture.refused(&Archive::new().symlink("out", &outside).hard_link("x", "out/canary").done());

    assert!(matches!(refusal, Refusal::ThroughLink { .. }), "{refusal}");
}

#[test]
fn metadata_of_a_symlink_is_not_applied_to_its_target() {
    let fixture = Fixture::new();
    let before = fs::metadata(fixture.canary()).unwrap();
    let link = Entry { path: b"x", kind: b'2', mode: 0o777, owner: 7, ..Entry::default() };

    fixture.root_of(&Archive::new().entry(&Entry { link: fixture.canary().as_bytes(), ..link }).done());

    let after = fs::metadata(fixture.canary()).unwrap();
    assert_eq!((after.mode(), after.uid(), after.mtime()), (before.mode(), before.uid(), before.mtime()));
}

#[test]
fn a_hard_link_to_a_directory_is_refused_and_one_to_itself_keeps_the_file() {
    let fixture = Fixture::new();

    let to_directory = fixture.refused(&Archive::new().directory("d").hard_link("x", "d").done());
    let to_nothing = fixture.refused(&Archive::new().hard_link("x", "x").done());
    let root = fixture.root_of(&Archive::new().file("x", "kept").hard_link("x", "./x").done());

    assert!(matches!(to_directory, Refusal::BadLinkTarget { .. }), "{to_directory}");
    assert!(matches!(to_nothing, Refusal::NoLinkTarget { .. }), "{to_nothing}");
    assert_eq!(fs::read_to_string(root.join("x")).unwrap(), "kept");
}

#[test]
fn mount_points_are_directories_even_if_the_archive_has_links_or_files_there() {
    let fixture = Fixture::new();
    let archive = Archive::new()
        .symlink("dev", &fixture.canary())
        .symlink("./proc/", "etc")
        .file("sys", "file")
        .file("passwd", "")
        .hard_link("tmp", "passwd")
        .directory("usr")
        .symlink("usr", "/")
        .file(".wh.workspace", "")
        .file("dev/inside", "inside");

    let image = fixture.import(&archive.done(), "image").unwrap();

    let root = fixture.images.layers(&image.id).unwrap().remove(0);
    for name in ["dev", "etc", "proc", "run", "sys", "tmp", "usr", "workspace"] {
        assert!(fs::symlink_metadata(root.join(name)).unwrap().is_dir(), "{name}");
    }
    assert_eq!(image.left_out, 5);
    assert!(root.join("dev/inside").exists());
}

#[test]
fn devices_and_fifos_are_skipped_and_counted() {
    let fixture = Fixture::new();
    let archive = Archive::new().kind("disk", b'4').kind("memory", b'3').kind("fifo", b'6').file("file", "");

    let image = fixture.import(&archive.done(), "image").unwrap();

    let root = fixture.images.layers(&image.id).unwrap().remove(0);
    assert_eq!(image.left_out, 3);
    assert!(root.join("file").exists());
    assert!(["disk", "memory", "fifo"].iter().all(|name| !root.join(name).exists()));
}

#[test]
fn a_device_entry_does_not_become_a_whiteout() {
    let fixture = Fixture::new();

    let root = fixture.root_of(&Archive::new().kind("x", b'3').file("y", "").done());

    let devices = fs::read_dir(root).unwrap().filter(|entry| {
        let kind = entry.as_ref().unwrap().file_type().unwrap();
        kind.is_char_device() || kind.is_block_device() || kind.is_fifo()
    });
    assert_eq!(devices.count(), 0);
}

#[test]
fn set_id_bits_are_dropped() {
    let fixture = Fixture::new();
    let program = Entry { path: b"x", mode: 0o6755, ..Entry::default() };

    let root = fixture.root_of(&Archive::new().entry(&program).done());

    assert_eq!(fs::metadata(root.join("x")).unwrap().mode() & 0o7777, 0o755);
}

#[test]
fn extended_attributes_are_dropped() {
    let fixture = Fixture::new();
    let records: [(&str, &[u8]); 3] = [
        ("SCHILY.xattr.security.capability", b"\x01\x00\x00\x02\xff\n\xff"),
        ("SCHILY.xattr.user.overlay.redirect", b"/etc"),
        ("SCHILY.xattr.user.overlay.opaque", b"y"),
    ];

    let root =
        fixture.root_of(&Archive::new().pax(&records).directory("d").pax(&records).file("f", "").done());

    for name in ["d", "f"] {
        let mut list = [0u8; 1024];
        let length = rustix::fs::listxattr(root.join(name), &mut list[..]).unwrap();
        assert_eq!(String::from_utf8_lossy(&list[..length]), "", "{name}");
    }
}

#[test]
fn an_entry_with_two_sizes_is_refused() {
    let fixture = Fixture::new();
    let hidden = Archive::new().file("smuggled", "x").done();

    let large_in_pax = Archive::new().pax(&[("size", hidden.len().to_string().as_bytes())]).entry(&Entry {
        path: b"x",
        contents: &hidden,
        size: Some(0),
        ..Entry::default()
    });
    let small_in_pax = Archive::new().pax(&[("size", b"0")]).entry(&Entry {
        path: b"x",
        contents: &hidden,
        ..Entry::default()
    });

    for archive in [large_in_pax, small_in_pax] {
        let refusal = fixture.refused(&archive.done());
        assert!(matches!(refusal, Refusal::TwoSizes { .. }), "{refusal}");
    }
}

#[test]
fn an_entry_without_contents_by_type_but_with_a_size_is_refused() {
    let fixture = Fixture::new();
    let hidden = Archive::new().file("smuggled", "x").done();
    for kind in [b'1', b'2', b'5', b'3', b'6'] {
        let entry = Entry { path: b"x", kind, link: b"y", contents: &hidden, ..Entry::default() };

        let refusal = fixture.refused(&Archive::new().entry(&entry).done());

        assert!(matches!(refusal, Refusal::UnexpectedContents { .. }), "{refusal}");
    }
}

#[test]
fn a_global_extension_that_sets_the_path_is_refused() {
    let fixture = Fixture::new();
    let global = pax_records(&[("path", b"etc/passwd")]);

    let refusal = fixture.refused(&Archive::new().extension(b'g', &global).file("x", "").done());

    assert!(matches!(refusal, Refusal::BadHeader { .. }), "{refusal}");
}

#[test]
fn a_name_with_a_nul_is_refused() {
    let fixture = Fixture::new();

    let by_pax = fixture.refused(&Archive::new().pax(&[("path", b"a\0b")]).file("x", "").done());
    let by_link = fixture.refused(&Archive::new().pax(&[("linkpath", b"a\0b")]).symlink("x", "y").done());

    for refusal in [by_pax, by_link] {
        assert!(matches!(refusal, Refusal::NulInName { .. }), "{refusal}");
    }
}

#[test]
fn a_file_without_a_name_is_refused() {
    let fixture = Fixture::new();
    for path in ["", ".", "/", "./."] {
        let refusal = fixture.refused(&Archive::new().file(path, "x").done());

        assert!(matches!(refusal, Refusal::NoName { .. } | Refusal::UnexpectedContents { .. }), "{refusal}");
    }
}

#[test]
fn a_file_that_replaces_a_directory_or_has_children_is_refused() {
    let fixture = Fixture::new();

    let above = fixture.refused(&Archive::new().file("d/x", "").file("d", "").done());
    let below = fixture.refused(&Archive::new().file("d", "").file("d/x", "").done());

    assert!(matches!(above, Refusal::AlreadyDirectory { .. }), "{above}");
    assert!(matches!(below, Refusal::ThroughFile { .. }), "{below}");
}

#[test]
fn a_whiteout_with_dot_dot_or_with_children_is_refused() {
    let fixture = Fixture::new();

    let climbing = fixture.refused(&Archive::new().file("d/.wh...", "").done());
    let nameless = fixture.refused(&Archive::new().file("d/.wh.", "").done());
    let directory = fixture.refused(&Archive::new().file(".wh.d/x", "").done());

    assert!(matches!(climbing, Refusal::LeadsOutside { .. }), "{climbing}");
    assert!(matches!(nameless, Refusal::NoName { .. }), "{nameless}");
    assert!(matches!(directory, Refusal::ThroughFile { .. }), "{directory}");
}

#[test]
fn a_truncated_or_damaged_archive_is_refused() {
    let fixture = Fixture::new();
    let whole = Archive::new().file("x", &"x".repeat(5000)).file("y", "");
    let damaged = || {
        let mut bytes = whole.clone().done();
        let second = 512 + 5120;
        bytes[second] ^= 1;
        bytes
    };

    assert_eq!(fixture.refused(&whole.clone().without_end()), Refusal::CutShort);
    assert_eq!(fixture.refused(&whole.clone().done()[..3000]), Refusal::CutShort);
    assert_eq!(fixture.refused(&gzip(&whole.clone().done())[..60]), Refusal::CutShort);
    assert!(matches!(fixture.refused(&damaged()), Refusal::BadHeader { at: 5632, .. }));
    assert_eq!(fixture.refused(&Archive::new().extension(b'L', b"name\0").done()), Refusal::CutShort);
    assert_eq!(fixture.refused(b""), Refusal::NotAnArchive);
    assert_eq!(fixture.refused(&[b'x'; 4096]), Refusal::NotAnArchive);
    assert_eq!(
        fixture.refused(b"\xfd7zXZ\0 and so on"),
        Refusal::UnknownCompression { with: "xz".to_owned() }
    );
}

#[test]
fn control_characters_in_a_name_are_escaped_in_the_refusal() {
    let fixture = Fixture::new();

    let refusal = fixture.refused(&Archive::new().file("../\u{1b}[2J", "").done());

    assert!(!refusal.to_string().contains('\u{1b}'), "{refusal}");
}
