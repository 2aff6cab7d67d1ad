//! `pinfold image`: import, list, remove, and sandboxes from images.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;

use crate::fixture::{Fixture, fixtures, text};

#[test]
fn directory_is_imported_listed_and_removed() {
    for fixture in fixtures() {
        let source = directory();
        fs::write(source.path().join("hello"), "hello").unwrap();
        let path = source.path().to_str().unwrap();

        let imported = fixture.document(&["image", "import", "--json", path, "small"]);
        let listed = fixture.document(&["image", "ls", "--json"]);
        let table = text(&fixture.pinfold(&["image", "ls"]).stdout);
        let removed = fixture.document(&["image", "rm", "--json", "small"]);

        assert!(imported["id"].as_str().unwrap().starts_with("sha256:"), "{imported}");
        assert_eq!((&listed[0]["name"], &listed[0]["id"]), (&"small".into(), &imported["id"]));
        assert!(table.contains("small") && table.lines().count() == 2, "{table}");
        assert_eq!(removed[0]["id"], imported["id"]);
        assert_eq!(fixture.document(&["image", "ls", "--json"]).as_array().unwrap().len(), 0);
        assert_eq!(fixture.pinfold(&["image", "rm", "small"]).status.code(), Some(1));
    }
}

/// The static busybox binary.
fn busybox() -> PathBuf {
    let found =
        ["/usr/bin/busybox", "/bin/busybox"].map(PathBuf::from).into_iter().find(|path| path.exists());
    found.expect("busybox-static is not installed; `cargo xtask test` installs it")
}

/// A world-readable directory.
fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
    directory
}

/// Creates the minimal file system of a shell.
fn lay_out_system(root: &Path) {
    fs::create_dir(root.join("bin")).unwrap();
    fs::copy(busybox(), root.join("bin/busybox")).unwrap();
    for name in ["sh", "cat", "ls", "id", "true", "sleep"] {
        std::os::unix::fs::symlink("busybox", root.join("bin").join(name)).unwrap();
    }
}

fn tar(root: &Path, into: &Path) {
    let done = Command::new("tar").arg("-cf").arg(into).arg("-C").arg(root).arg(".").status().unwrap();
    assert!(done.success());
}

fn digest(file: &Path) -> String {
    let output = Command::new("sha256sum").arg(file).output().unwrap();
    text(&output.stdout).split_whitespace().next().unwrap().to_owned()
}

/// An archive as from `docker save`, with two layers of which the upper deletes a file.
fn saved_by_docker(user: &str) -> TempDir {
    let (lower, upper, saved) = (directory(), directory(), directory());
    lay_out_system(lower.path());
    fs::create_dir_all(lower.path().join("srv/old")).unwrap();
    fs::write(lower.path().join("srv/old/deep"), "deep").unwrap();
    fs::write(lower.path().join("srv/kept"), "kept").unwrap();
    fs::write(lower.path().join("srv/removed"), "removed").unwrap();
    fs::create_dir_all(upper.path().join("srv/old")).unwrap();
    fs::write(upper.path().join("srv/.wh.removed"), "").unwrap();
    fs::write(upper.path().join("srv/old/.wh..wh..opq"), "").unwrap();
    fs::write(upper.path().join("srv/old/new"), "new").unwrap();
    let layers = [saved.path().join("lower.tar"), saved.path().join("upper.tar")];
    tar(lower.path(), &layers[0]);
    tar(upper.path(), &layers[1]);
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let config = json!({
        "architecture": architecture, "os": "linux",
        "config": { "Env": ["PATH=/bin", "GREETING=hello there", "B=image"], "WorkingDir": "/srv", "User": user },
        "rootfs": {
            "type": "layers",
            "diff_ids": layers.iter().map(|layer| format!("sha256:{}", digest(layer))).collect::<Vec<_>>(),
        },
    });
    fs::write(saved.path().join("config.json"), config.to_string()).unwrap();
    let manifest = json!([{ "Config": "config.json", "Layers": ["lower.tar", "upper.tar"] }]);
    fs::write(saved.path().join("manifest.json"), manifest.to_string()).unwrap();
    let archived = directory();
    tar(saved.path(), &archived.path().join("saved.tar"));
    archived
}

fn import(fixture: &Fixture, source: &Path, name: &str) {
    let output = fixture.pinfold(&["image", "import", source.to_str().unwrap(), name]);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn sandbox_from_a_directory_image_sees_only_the_images_files() {
    for fixture in fixtures() {
        let source = directory();
        lay_out_system(source.path());
        import(&fixture, source.path(), "small");

        let script = "echo /bin/*; ls /usr/bin; echo written > /bin/own && cat /bin/own; id -u; pwd";
        let output = fixture.pinfold(&["run", "--image", "small", "--", "sh", "-c", script]);
        let again = fixture.pinfold(&["run", "--image", "small", "--", "cat", "/bin/own"]);

        let expected = "/bin/busybox /bin/cat /bin/id /bin/ls /bin/sh /bin/sleep /bin/true\n";
        assert!(
            text(&output.stdout).starts_with(expected),
            "{}{}",
            text(&output.stdout),
            text(&output.stderr)
        );
        assert!(text(&output.stdout).ends_with("written\n0\n/workspace\n"), "{}", text(&output.stdout));
        assert_eq!(again.status.code(), Some(1), "a sandbox changed its image");
    }
}

#[test]
fn whiteouts_and_image_settings_are_applied() {
    for fixture in fixtures() {
        let saved = saved_by_docker("app");
        import(&fixture, &saved.path().join("saved.tar"), "app");

        let script = "echo *; echo old/*; echo $GREETING $B; pwd; id -u";
        let run = |more: &[&str]| {
            let arguments = [&["run", "--image", "app"], more, &["--", "sh", "-c", script]].concat();
            fixture.pinfold(&arguments)
        };
        let (plain, other) = (run(&[]), run(&["--env", "B=mine", "--workdir", "/bin"]));

        assert_eq!(text(&plain.stdout), "kept old\nold/new\nhello there image\n/srv\n0\n");
        let output = text(&plain.stderr);
        assert!(
            output.contains("image `app` sets the user `app`; it runs as root of its own sandbox"),
            "{output}"
        );
        assert!(text(&other.stdout).ends_with("hello there mine\n/bin\n0\n"), "{}", text(&other.stdout));
    }
}

#[test]
fn image_in_use_cannot_be_removed() {
    for fixture in fixtures() {
        let source = directory();
        lay_out_system(source.path());
        import(&fixture, source.path(), "used");
        let id = fixture.create(&["--image", "used"]);

        let refused = fixture.pinfold(&["image", "rm", "used"]);
        let works = fixture.pinfold(&["exec", &id, "--", "true"]);
        fixture.pinfold(&["stop", "--force", &id]);
        let removed = fixture.pinfold(&["image", "rm", "used"]);

        assert_eq!(refused.status.code(), Some(1));
        assert!(text(&refused.stderr).contains(&id), "{}", text(&refused.stderr));
        assert_eq!(works.status.code(), Some(0));
        assert_eq!(removed.status.code(), Some(0), "{}", text(&removed.stderr));
    }
}

#[test]
fn run_with_an_unknown_image_names_it() {
    for fixture in fixtures() {
        let output = fixture.pinfold(&["run", "--image", "nowhere", "--", "true"]);
        let document = fixture.document(&["run", "--json", "--image", "nowhere", "--", "true"]);

        assert_eq!(output.status.code(), Some(2));
        assert!(
            text(&output.stderr).contains("there is no image `nowhere` on this host"),
            "{}",
            text(&output.stderr)
        );
        assert_eq!(document["error"]["code"], "bad_input");
    }
}
