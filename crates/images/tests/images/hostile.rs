//! What hostile archives try. Each test is named after it. Beside every image there is a canary.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use pinfold_images::Refusal;

use super::archive::{Archive, Entry, gzip, pax_records};
use super::stage::Stage;

#[test]
fn a_name_with_dots_climbs_out() {
    let stage = Stage::new();
    for path in ["../canary", "a/../../canary", "..", "a/..", "./../../../../canary", "/../canary"] {
        let refusal = stage.refused(&Archive::new().file(path, "dead").done());

        assert!(matches!(refusal, Refusal::LeadsOutside { .. }), "{path}: {refusal}");
    }
}

#[test]
fn a_name_with_dots_climbs_out_by_an_extension() {
    let stage = Stage::new();
    let by_pax = Archive::new().pax(&[("path", b"../../../canary")]).file("x", "dead").done();
    let by_gnu = Archive::new().extension(b'L', b"../../../canary\0").file("x", "dead").done();

    for archive in [by_pax, by_gnu] {
        assert!(matches!(stage.refused(&archive), Refusal::LeadsOutside { .. }));
    }
}

#[test]
fn an_absolute_name_names_the_host() {
    let stage = Stage::new();
    let canary = stage.canary();

    let root = stage.root_of(&Archive::new().pax(&[("path", canary.as_bytes())]).file("x", "inside").done());

    assert_eq!(fs::read_to_string(root.join(canary.trim_start_matches('/'))).unwrap(), "inside");
}

#[test]
fn a_file_is_written_through_a_link_that_leads_outside() {
    let stage = Stage::new();
    let outside = stage.path("");
    for target in [outside.to_str().unwrap(), "/", "../../../../../../..", "/proc/self/root"] {
        let archive = Archive::new().symlink("out", target).file("out/canary", "dead");

        let refusal = stage.refused(&archive.done());

        assert!(matches!(refusal, Refusal::ThroughLink { .. }), "{target}: {refusal}");
    }
}

#[test]
fn a_file_is_written_onto_a_link_that_leads_outside() {
    let stage = Stage::new();
    let canary = stage.canary();

    let root = stage.root_of(&Archive::new().symlink("x", &canary).file("x", "dead").done());

    assert!(fs::symlink_metadata(root.join("x")).unwrap().is_file());
}

#[test]
fn a_directory_takes_over_a_link_that_leads_outside() {
    let stage = Stage::new();
    let outside = stage.path("").to_str().unwrap().to_owned();

    let archive = Archive::new().symlink("x", &outside).directory("x").file("x/canary", "inside");
    let root = stage.root_of(&archive.done());

    assert_eq!(fs::read_to_string(root.join("x/canary")).unwrap(), "inside");
}

#[test]
fn a_hard_link_is_made_to_a_file_outside_and_written_to() {
    let stage = Stage::new();
    let canary = stage.canary();
    for target in [canary.as_str(), "/etc/passwd"] {
        let archive = Archive::new().hard_link("x", target).file("x", "dead");

        let refusal = stage.refused(&archive.done());

        assert!(matches!(refusal, Refusal::NoLinkTarget { .. }), "{target}: {refusal}");
    }
    let climbing = stage.refused(&Archive::new().hard_link("x", "../canary").done());
    assert!(matches!(climbing, Refusal::LeadsOutside { .. }), "{climbing}");
}

#[test]
fn a_hard_link_leads_through_a_link_that_leads_outside() {
    let stage = Stage::new();
    let outside = stage.path("").to_str().unwrap().to_owned();

    let refusal = stage.refused(&Archive::new().symlink("out", &outside).hard_link("x", "out/canary").done());

    assert!(matches!(refusal, Refusal::ThroughLink { .. }), "{refusal}");
}

#[test]
fn the_mode_of_a_file_outside_is_changed_through_a_link() {
    let stage = Stage::new();
    let before = fs::metadata(stage.canary()).unwrap();
    let link = Entry { path: b"x", kind: b'2', mode: 0o777, owner: 7, ..Entry::default() };

    stage.root_of(&Archive::new().entry(&Entry { link: stage.canary().as_bytes(), ..link }).done());

    let after = fs::metadata(stage.canary()).unwrap();
    assert_eq!((after.mode(), after.uid(), after.mtime()), (before.mode(), before.uid(), before.mtime()));
}

#[test]
fn a_hard_link_is_made_to_a_directory_or_to_itself() {
    let stage = Stage::new();

    let to_directory = stage.refused(&Archive::new().directory("d").hard_link("x", "d").done());
    let to_nothing = stage.refused(&Archive::new().hard_link("x", "x").done());
    let root = stage.root_of(&Archive::new().file("x", "kept").hard_link("x", "./x").done());

    assert!(matches!(to_directory, Refusal::BadLinkTarget { .. }), "{to_directory}");
    assert!(matches!(to_nothing, Refusal::NoLinkTarget { .. }), "{to_nothing}");
    assert_eq!(fs::read_to_string(root.join("x")).unwrap(), "kept");
}

#[test]
fn a_mount_point_is_a_link_a_file_or_gone() {
    let stage = Stage::new();
    let archive = Archive::new()
        .symlink("dev", &stage.canary())
        .symlink("./proc/", "etc")
        .file("sys", "file")
        .file("passwd", "")
        .hard_link("tmp", "passwd")
        .directory("usr")
        .symlink("usr", "/")
        .file(".wh.workspace", "")
        .file("dev/inside", "inside");

    let image = stage.import(&archive.done(), "image").unwrap();

    let root = stage.images.layers(&image.id).unwrap().remove(0);
    for name in ["dev", "etc", "proc", "run", "sys", "tmp", "usr", "workspace"] {
        assert!(fs::symlink_metadata(root.join(name)).unwrap().is_dir(), "{name}");
    }
    assert_eq!(image.left_out, 5);
    assert!(root.join("dev/inside").exists());
}

#[test]
fn devices_and_fifos_come_along() {
    let stage = Stage::new();
    let archive = Archive::new().kind("disk", b'4').kind("memory", b'3').kind("fifo", b'6').file("file", "");

    let image = stage.import(&archive.done(), "image").unwrap();

    let root = stage.images.layers(&image.id).unwrap().remove(0);
    assert_eq!(image.left_out, 3);
    assert!(root.join("file").exists());
    assert!(["disk", "memory", "fifo"].iter().all(|name| !root.join(name).exists()));
}

#[test]
fn a_device_passes_for_a_whiteout() {
    let stage = Stage::new();

    let root = stage.root_of(&Archive::new().kind("x", b'3').file("y", "").done());

    let devices = fs::read_dir(root).unwrap().filter(|entry| {
        let kind = entry.as_ref().unwrap().file_type().unwrap();
        kind.is_char_device() || kind.is_block_device() || kind.is_fifo()
    });
    assert_eq!(devices.count(), 0);
}

#[test]
fn a_set_user_id_program_waits_for_somebody_on_the_host() {
    let stage = Stage::new();
    let program = Entry { path: b"x", mode: 0o6755, ..Entry::default() };

    let root = stage.root_of(&Archive::new().entry(&program).done());

    assert_eq!(fs::metadata(root.join("x")).unwrap().mode() & 0o7777, 0o755);
}

#[test]
fn attributes_bring_capabilities_and_marks_of_the_overlay() {
    let stage = Stage::new();
    let records: [(&str, &[u8]); 3] = [
        ("SCHILY.xattr.security.capability", b"\x01\x00\x00\x02\xff\n\xff"),
        ("SCHILY.xattr.user.overlay.redirect", b"/etc"),
        ("SCHILY.xattr.user.overlay.opaque", b"y"),
    ];

    let root = stage.root_of(&Archive::new().pax(&records).directory("d").pax(&records).file("f", "").done());

    for name in ["d", "f"] {
        let mut list = [0u8; 1024];
        let length = rustix::fs::listxattr(root.join(name), &mut list[..]).unwrap();
        assert_eq!(String::from_utf8_lossy(&list[..length]), "", "{name}");
    }
}

#[test]
fn two_sizes_hide_an_archive_in_the_archive() {
    let stage = Stage::new();
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
        let refusal = stage.refused(&archive.done());
        assert!(matches!(refusal, Refusal::TwoSizes { .. }), "{refusal}");
    }
}

#[test]
fn a_link_has_contents_that_hide_an_archive() {
    let stage = Stage::new();
    let hidden = Archive::new().file("smuggled", "x").done();
    for kind in [b'1', b'2', b'5', b'3', b'6'] {
        let entry = Entry { path: b"x", kind, link: b"y", contents: &hidden, ..Entry::default() };

        let refusal = stage.refused(&Archive::new().entry(&entry).done());

        assert!(matches!(refusal, Refusal::UnexpectedContents { .. }), "{refusal}");
    }
}

#[test]
fn one_extension_renames_every_entry() {
    let stage = Stage::new();
    let global = pax_records(&[("path", b"etc/passwd")]);

    let refusal = stage.refused(&Archive::new().extension(b'g', &global).file("x", "").done());

    assert!(matches!(refusal, Refusal::BadHeader { .. }), "{refusal}");
}

#[test]
fn a_name_has_a_nul_in_it() {
    let stage = Stage::new();

    let by_pax = stage.refused(&Archive::new().pax(&[("path", b"a\0b")]).file("x", "").done());
    let by_link = stage.refused(&Archive::new().pax(&[("linkpath", b"a\0b")]).symlink("x", "y").done());

    for refusal in [by_pax, by_link] {
        assert!(matches!(refusal, Refusal::NulInName { .. }), "{refusal}");
    }
}

#[test]
fn an_entry_has_no_name() {
    let stage = Stage::new();
    for path in ["", ".", "/", "./."] {
        let refusal = stage.refused(&Archive::new().file(path, "x").done());

        assert!(matches!(refusal, Refusal::NoName { .. } | Refusal::UnexpectedContents { .. }), "{refusal}");
    }
}

#[test]
fn a_file_takes_the_place_of_a_directory_or_a_directory_is_below_a_file() {
    let stage = Stage::new();

    let above = stage.refused(&Archive::new().file("d/x", "").file("d", "").done());
    let below = stage.refused(&Archive::new().file("d", "").file("d/x", "").done());

    assert!(matches!(above, Refusal::AlreadyDirectory { .. }), "{above}");
    assert!(matches!(below, Refusal::ThroughFile { .. }), "{below}");
}

#[test]
fn a_whiteout_climbs_out_or_is_a_directory() {
    let stage = Stage::new();

    let climbing = stage.refused(&Archive::new().file("d/.wh...", "").done());
    let nameless = stage.refused(&Archive::new().file("d/.wh.", "").done());
    let directory = stage.refused(&Archive::new().file(".wh.d/x", "").done());

    assert!(matches!(climbing, Refusal::LeadsOutside { .. }), "{climbing}");
    assert!(matches!(nameless, Refusal::NoName { .. }), "{nameless}");
    assert!(matches!(directory, Refusal::ThroughFile { .. }), "{directory}");
}

#[test]
fn an_archive_is_cut_short_or_damaged() {
    let stage = Stage::new();
    let whole = Archive::new().file("x", &"x".repeat(5000)).file("y", "");
    let damaged = || {
        let mut bytes = whole.clone().done();
        let second = 512 + 5120;
        bytes[second] ^= 1;
        bytes
    };

    assert_eq!(stage.refused(&whole.clone().without_end()), Refusal::CutShort);
    assert_eq!(stage.refused(&whole.clone().done()[..3000]), Refusal::CutShort);
    assert_eq!(stage.refused(&gzip(&whole.clone().done())[..60]), Refusal::CutShort);
    assert!(matches!(stage.refused(&damaged()), Refusal::BadHeader { at: 5632, .. }));
    assert_eq!(stage.refused(&Archive::new().extension(b'L', b"name\0").done()), Refusal::CutShort);
    assert_eq!(stage.refused(b""), Refusal::NotAnArchive);
    assert_eq!(stage.refused(&[b'x'; 4096]), Refusal::NotAnArchive);
    assert_eq!(stage.refused(b"\xfd7zXZ\0 and so on"), Refusal::UnknownCompression { with: "xz".to_owned() });
}

#[test]
fn a_name_speaks_to_the_terminal() {
    let stage = Stage::new();

    let refusal = stage.refused(&Archive::new().file("../\u{1b}[2J", "").done());

    assert!(!refusal.to_string().contains('\u{1b}'), "{refusal}");
}
