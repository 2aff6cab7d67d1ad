//! `pinfold cp`: round trips, and confinement to the destination.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Stdio;

use crate::fixture::{Fixture, fixtures, text};

fn cp(fixture: &Fixture, from: &str, to: &str) {
    let output = fixture.pinfold(&["cp", from, to]);
    assert!(output.status.success(), "{from} {to}: {}", text(&output.stderr));
}

fn inside(fixture: &Fixture, id: &str, script: &str) -> String {
    let output = fixture.pinfold(&["exec", id, "--", "sh", "-c", script]);
    assert!(output.status.success(), "{script}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn directory_copied_in_and_out_is_identical() {
    for fixture in fixtures() {
        let id = fixture.create(&[]);
        let here = fixture.directory("here");
        let tree = here.join("tree");
        fs::create_dir_all(tree.join("deep/er")).unwrap();
        let much: Vec<u8> = (0u32..500_000).flat_map(u32::to_le_bytes).collect();
        fs::write(tree.join("deep/er/much"), &much).unwrap();
        fs::write(tree.join("a name\nwith a line"), "odd").unwrap();
        symlink("deep/er/much", tree.join("link")).unwrap();
        fs::set_permissions(tree.join("deep/er/much"), fs::Permissions::from_mode(0o754)).unwrap();
        fs::set_permissions(tree.join("deep"), fs::Permissions::from_mode(0o715)).unwrap();

        cp(&fixture, path(&tree), &format!("{id}:/workspace/in"));
        assert_eq!(
            inside(&fixture, &id, "cd in; stat -c %a deep deep/er/much; readlink link"),
            "715\n754\ndeep/er/much\n"
        );
        // The destination exists now, so the copy goes into it under its own name.
        cp(&fixture, path(&tree), &format!("{id}:in"));
        assert_eq!(inside(&fixture, &id, "wc -c < in/tree/link"), "2000000\n");
        let out = fixture.directory("out");
        cp(&fixture, &format!("{id}:in/tree"), path(&out.join("copy")));
        cp(&fixture, &format!("{id}:/workspace/in/tree/"), path(&out));

        for copy in [out.join("copy"), out.join("tree")] {
            assert!(fs::read(copy.join("deep/er/much")).unwrap() == much);
            assert_eq!(fs::read(copy.join("a name\nwith a line")).unwrap(), b"odd");
            assert_eq!(fs::read_link(copy.join("link")).unwrap(), Path::new("deep/er/much"));
            assert_eq!((mode(&copy.join("deep")), mode(&copy.join("deep/er/much"))), (0o715, 0o754));
        }
    }
}

#[test]
fn file_can_be_copied_through_a_pipe() {
    for fixture in fixtures() {
        let id = fixture.create(&[]);
        let much: Vec<u8> = (0u32..500_000).flat_map(u32::to_le_bytes).collect();
        let mut command = fixture.command(&["cp", "-", &format!("{id}:piped")]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();

        child.stdin.take().unwrap().write_all(&much).unwrap();
        assert!(child.wait().unwrap().success());
        let back = fixture.pinfold(&["cp", &format!("{id}:piped"), "-"]);

        assert!(back.status.success() && back.stdout == much, "{}", text(&back.stderr));
    }
}

#[test]
fn copied_out_files_stay_in_the_destination_without_setuid() {
    for fixture in fixtures() {
        let id = fixture.create(&[]);
        let out = fixture.directory("out");
        let script = "mkdir d; cd d; echo x > file; chmod 4755 file; ln -s /etc etc; ln -s ../../.. up; mkfifo pipe; \
                      touch \"$(printf '\\377')\"";
        inside(&fixture, &id, script);

        let copied = fixture.document(&["cp", "--json", &format!("{id}:d"), path(&out)]);

        assert_eq!(mode(&out.join("d/file")), 0o755, "the setuid bit must be dropped");
        assert_eq!(fs::read_link(out.join("d/etc")).unwrap(), Path::new("/etc"), "it is not followed");
        assert_eq!((&copied["files"], &copied["links"]), (&2.into(), &2.into()), "{copied}");
        assert_eq!(copied["left_out"], serde_json::json!(["d/pipe"]));
        assert_eq!(fs::read_dir(&out).unwrap().count(), 1);
        // In the second copy a link from the first one stands where a directory must go.
        inside(&fixture, &id, "cd d; rm etc; mkdir etc; echo evil > etc/pinfold-was-here");
        assert_eq!(fixture.pinfold(&["cp", &format!("{id}:d"), path(&out)]).status.code(), Some(1));
        assert!(!Path::new("/etc/pinfold-was-here").exists());
    }
}

#[test]
fn control_characters_in_a_quoted_file_name_are_escaped() {
    let fixture = fixtures().pop().unwrap();
    let id = fixture.create(&[]);
    let out = fixture.directory("out");

    let output = fixture.pinfold(&["cp", &format!("{id}:a\u{1b}[2Jb"), path(&out)]);

    let why = text(&output.stderr);
    assert!(why.contains("not found: `/workspace/a\\x1b[2Jb`") && !why.contains('\u{1b}'), "{why}");
}

#[test]
fn failed_copy_is_reported_and_leaves_no_file() {
    let fixture = fixtures().pop().unwrap();
    let id = fixture.create(&[]);
    let out = fixture.directory("out");
    let failed = |from: &str, to: &str| {
        let output = fixture.pinfold(&["cp", from, to]);
        (output.status.code(), text(&output.stderr))
    };

    let (code, why) = failed("here", "there");
    assert!(code == Some(2) && why.contains("neither path is in a sandbox"), "{why}");
    let (code, why) = failed(&format!("{id}:/no/such/file"), path(&out));
    assert!(code == Some(1) && why.contains("not found"), "{why}");
    let (code, why) = failed("/no/such/file", &format!("{id}:x"));
    assert!(code == Some(1) && why.contains("No such file"), "{why}");
    let (code, why) = failed("unknown:x", path(&out));
    assert!(code == Some(1) && why.contains("there is no sandbox `unknown`"), "{why}");
    assert_eq!(fs::read_dir(&out).unwrap().count(), 0);
}
