//! Commands from another host, with only a server's address and a token.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use pinfold_test_support::until;
use serde_json::Value;

use crate::fixture::{Fixture, fixtures, text};
use crate::serve::Server;

/// A remote user. Commands must create nothing in its data directory.
struct RemoteUser<'a> {
    fixture: &'a Fixture,
    server: &'a Server,
    data: PathBuf,
}

impl<'a> RemoteUser<'a> {
    fn of(fixture: &'a Fixture, server: &'a Server) -> Self {
        Self { fixture, server, data: fixture.directory("elsewhere") }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.fixture.command(arguments);
        command.env("PINFOLD_URL", self.server.address()).env("PINFOLD_TOKEN", self.server.token());
        command.env("PINFOLD_DATA_DIR", &self.data);
        command
    }

    fn pinfold(&self, arguments: &[&str]) -> Output {
        let output = self.command(arguments).output().unwrap();
        assert_eq!(
            fs::read_dir(&self.data).unwrap().count(),
            0,
            "{arguments:?} wrote to the local data directory"
        );
        output
    }

    fn document(&self, arguments: &[&str]) -> Value {
        let output = self.pinfold(arguments);
        let read = serde_json::from_slice(&output.stdout);
        read.unwrap_or_else(|error| panic!("{error}: {}{}", text(&output.stdout), text(&output.stderr)))
    }

    fn stdout_of(&self, arguments: &[&str]) -> String {
        let output = self.pinfold(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    fn inside(&self, id: &str, script: &str) -> String {
        self.stdout_of(&["exec", id, "--", "sh", "-c", script])
    }
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn directory_copied_through_a_server_is_identical() {
    for fixture in fixtures() {
        let server = Server::begin(&fixture, &[]);
        let remote = RemoteUser::of(&fixture, &server);
        let id = remote.stdout_of(&["create", "--name", "box"]).trim().to_owned();
        let tree = fixture.directory("here").join("tree");
        fs::create_dir_all(tree.join("deep/er")).unwrap();
        let much: Vec<u8> = (0u32..500_000).flat_map(u32::to_le_bytes).collect();
        fs::write(tree.join("deep/er/much"), &much).unwrap();
        fs::write(tree.join("a name\nwith a line, 100% odd?&"), "odd").unwrap();
        symlink("deep/er/much", tree.join("link")).unwrap();
        fs::set_permissions(tree.join("deep/er/much"), fs::Permissions::from_mode(0o754)).unwrap();
        fs::set_permissions(tree.join("deep"), fs::Permissions::from_mode(0o715)).unwrap();

        remote.stdout_of(&["cp", path(&tree), "box:/workspace/in"]);
        remote.stdout_of(&["cp", path(&tree), "box:in"]);
        assert_eq!(
            remote.inside(&id, "cd in; stat -c %a deep deep/er/much; readlink link; wc -c < tree/link"),
            "715\n754\ndeep/er/much\n2000000\n"
        );
        // Copy again over the existing files.
        remote.stdout_of(&["cp", path(&tree), "box:in"]);
        remote.inside(
            &id,
            "cd in/tree; : > \"$(printf '\\377')\"; ln -s \"$(printf '\\376')\" nowhere; mkfifo pipe",
        );
        let out = fixture.directory("out");
        let copied = remote.document(&["cp", "--json", "box:in/tree", path(&out)]);

        let copy = out.join("tree");
        assert!(fs::read(copy.join("deep/er/much")).unwrap() == much);
        assert_eq!(fs::read(copy.join("a name\nwith a line, 100% odd?&")).unwrap(), b"odd");
        assert_eq!(fs::read_link(copy.join("link")).unwrap(), Path::new("deep/er/much"));
        assert_eq!((mode(&copy.join("deep")), mode(&copy.join("deep/er/much"))), (0o715, 0o754));
        let name = |byte: u8| {
            PathBuf::from(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(vec![byte]))
        };
        assert!(copy.join(name(0o377)).is_file(), "a name that is not UTF-8");
        assert_eq!(fs::read_link(copy.join("nowhere")).unwrap(), name(0o376));
        assert_eq!(copied["left_out"], serde_json::json!(["in/tree/pipe"]));
    }
}

#[test]
fn file_copied_through_a_server_is_complete_or_absent() {
    use std::io::Write;

    for fixture in fixtures() {
        let server = Server::begin(&fixture, &[]);
        let remote = RemoteUser::of(&fixture, &server);
        let id = remote.stdout_of(&["create"]).trim().to_owned();
        let much: Vec<u8> = (0u32..500_000).flat_map(u32::to_le_bytes).collect();
        let to = format!("{id}:piped");
        let begin = || remote.command(&["cp", "-", &to]).stdin(Stdio::piped()).spawn().unwrap();

        let mut child = begin();
        child.stdin.take().unwrap().write_all(&much).unwrap();
        assert!(child.wait().unwrap().success());
        let back = remote.pinfold(&["cp", &to, "-"]);
        assert!(back.status.success() && back.stdout == much, "{}", text(&back.stderr));

        // An interrupted copy leaves no new file and keeps an existing one.
        let mut child = begin();
        // Keep the input open: its end would complete the file.
        let mut input = child.stdin.take().unwrap();
        input.write_all(&much[..1_000_000]).unwrap();
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
            .unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130));
        drop(input);
        until("nothing of it is left", || remote.inside(&id, "ls -A") == "piped\n");
        assert_eq!(remote.inside(&id, "wc -c < piped"), "2000000\n");
        let refused = remote.pinfold(&["cp", &format!("{id}:/no/such/file"), "-"]);
        assert!(text(&refused.stderr).contains("not found"), "{}", text(&refused.stderr));
    }
}

#[test]
fn one_frame_of_top_comes_from_the_server() {
    for fixture in fixtures() {
        let server = Server::begin(&fixture, &[]);
        let remote = RemoteUser::of(&fixture, &server);
        remote.stdout_of(&["create", "--name", "calm"]);

        let document = remote.document(&["top", "--json"]);

        assert_eq!((&document[0]["name"], &document[0]["status"]), (&"calm".into(), &"ready".into()));
        until("it is measured", || remote.document(&["top", "--json"])[0]["cpu_percent"].is_number());
    }
}

#[test]
fn rm_doctor_and_reconcile_work_through_a_server() {
    for fixture in fixtures() {
        let server = Server::begin(&fixture, &[]);
        let remote = RemoteUser::of(&fixture, &server);
        let id = remote.stdout_of(&["create", "--name", "box"]).trim().to_owned();

        let examined = remote.document(&["doctor", "--json", "box"]);
        let probes = examined["probes"].as_array().unwrap();
        assert!(probes.len() >= 5 && probes.iter().all(|probe| probe["passed"] == true), "{examined}");
        assert!(examined["due"].as_array().unwrap().len() >= 2, "{examined}");
        let output = remote.stdout_of(&["doctor", "box"]);
        assert!(output.contains("all probes passed"), "{output}");
        let repaired = remote.document(&["reconcile", "--json"]);
        assert_eq!((&repaired["unsettled"], &repaired["instances"]), (&0.into(), &1.into()), "{repaired}");
        assert_eq!(repaired["stats"], remote.document(&["stats", "--json"]));
        let output = remote.stdout_of(&["reconcile"]);
        assert!(output.contains("Reconciliation complete: 1 active, 0 provisioning"), "{output}");
        let dry_run = remote.document(&["reconcile", "--json", "--dry-run"]);
        assert_eq!((&dry_run["dry_run"], dry_run.get("unsettled")), (&true.into(), None), "{dry_run}");
        let attested = remote.document(&["stop", "--json", "--attest", "--reason", "I & I alone", &id]);
        assert_eq!(attested[0]["error"]["code"], "wrong_state", "{attested}");
        let refused = remote.document(&["rm", "--json", "box"]);
        assert_eq!(refused["error"]["code"], "wrong_state", "{refused}");
        remote.stdout_of(&["stop", "--force", "box"]);
        let forgotten = remote.document(&["rm", "--json", "box"]);
        assert_eq!(forgotten["forgotten"][0], id.as_str(), "{forgotten}");
        assert_eq!(remote.document(&["ps", "--all", "--json"]), serde_json::json!([]));
    }
}

#[test]
fn archive_uploaded_to_a_server_becomes_an_image() {
    for fixture in fixtures() {
        let server = Server::begin(&fixture, &[]);
        let remote = RemoteUser::of(&fixture, &server);
        let root = fixture.directory("root");
        fs::write(root.join("note"), "hello").unwrap();
        let archive = fixture.directory("archives").join("image.tar");
        let packed = Command::new("tar").args(["-C", path(&root), "-cf", path(&archive), "."]).status();
        assert!(packed.unwrap().success());

        let sent = remote.document(&["image", "import", "--json", path(&archive), "team/app:1.2"]);
        let directory = remote.pinfold(&["image", "import", path(&root), "other"]);
        let listed = remote.document(&["image", "ls", "--json"]);
        let here = fixture.document(&["image", "ls", "--json", "--local"]);

        assert_eq!((&listed[0]["name"], &listed[0]["id"]), (&"team/app:1.2".into(), &sent["id"]), "{listed}");
        assert_eq!(listed, here);
        let why = text(&directory.stderr);
        assert!(directory.status.code() == Some(2) && why.contains("tar -C"), "{why}");
        let removed = remote.document(&["image", "rm", "--json", "team/app:1.2"]);
        assert_eq!((&removed[0]["id"], &removed[0]["last_name"]), (&sent["id"], &true.into()), "{removed}");
        let unknown = remote.document(&["image", "rm", "--json", "team/app:1.2"]);
        assert_eq!(unknown["error"]["code"], "unknown_image", "{unknown}");
    }
}
