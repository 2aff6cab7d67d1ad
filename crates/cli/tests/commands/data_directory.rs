//! The data directory: who can read it, what a copy of the store tells, and what a killed server leaves in it.

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use pinfold_test_support::until;

use crate::fixture::{Fixture, fixtures, text};
use crate::serve::Server;

const CANARY: &str = "canary-3b1f-of-the-environment";

/// All entries below a directory. Links are not followed.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(entries(&entry.path()));
        }
        found.push(entry.path());
    }
    found
}

/// What belongs to a sandbox or is shown to it has the modes that the sandbox needs. It lies below private directories.
fn is_shown_to_sandboxes(path: &Path) -> bool {
    ["linux", "linux/instances", "linux/layers/"].iter().any(|shown| {
        let path = path.to_string_lossy();
        if shown.ends_with('/') { path.starts_with(shown) } else { path == *shown }
    })
}

/// The entries of the data directory, and itself, that group or others have any right to.
fn wide(data: &Path) -> Vec<String> {
    let mut all = entries(data);
    all.push(data.to_owned());
    let describe = |path: PathBuf| {
        let found = fs::symlink_metadata(&path).ok()?;
        let below = path.strip_prefix(data).unwrap().to_owned();
        let is_wide = found.mode() & 0o077 != 0 && !found.is_symlink();
        // Written by the object store's crate, below a private directory.
        let is_object = below.starts_with("objects") && below != Path::new("objects");
        let is_log_of_the_test = below == Path::new("serve.log");
        (is_wide && !is_object && !is_log_of_the_test && !is_shown_to_sandboxes(&below))
            .then(|| format!("{} {:o}", below.display(), found.mode() & 0o7777))
    };
    all.into_iter().filter_map(describe).collect()
}

fn with_open_umask(fixture: &Fixture, command: &str) {
    let script = format!("umask 0; {command}");
    let output = fixture.program("sh", &["-ec", &script]).output().unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn data_directory_is_private_under_an_open_umask() {
    for fixture in fixtures() {
        fs::set_permissions(fixture.data(), fs::Permissions::from_mode(0o755)).unwrap();
        let server = Server::begin(&fixture, &[]);
        let create = "id=$(pinfold create); pinfold exec $id -- sh -c 'echo output'";

        with_open_umask(&fixture, create);
        assert_eq!(wide(&fixture.data()), [] as [String; 0], "of a server");
        drop(server);
        with_open_umask(&fixture, &format!("{create}; pinfold stop --force $id"));

        assert_eq!(wide(&fixture.data()), [] as [String; 0], "of commands without a server");
    }
}

#[test]
fn data_directory_that_others_can_write_is_refused() {
    for fixture in fixtures() {
        fs::set_permissions(fixture.data(), fs::Permissions::from_mode(0o777)).unwrap();

        let refused = fixture.pinfold(&["ps"]);

        let message = text(&refused.stderr);
        assert!(!refused.status.success());
        assert!(message.contains("mode 0777") && message.contains("chmod go-rwx"), "{message}");
        assert!(message.contains(&fixture.data().display().to_string()), "{message}");
        fs::set_permissions(fixture.data(), fs::Permissions::from_mode(0o700)).unwrap();
    }
}

#[test]
fn environment_is_not_in_the_bytes_of_the_store() {
    for fixture in fixtures() {
        let store = fixture.data().join("store");
        let output = fixture.program(
            "sh",
            &[
                "-ec",
                &format!(
                    "id=$(pinfold create --env TOKEN={CANARY}-create)
                     pinfold exec --env OTHER={CANARY}-exec $id -- sh -c 'echo $TOKEN $OTHER'
                     pinfold stop --force $id"
                ),
            ],
        );
        let output = { output }.output().unwrap();

        let printed = text(&output.stdout);
        assert!(
            printed.contains(&format!("{CANARY}-create {CANARY}-exec")),
            "{printed}{}",
            text(&output.stderr)
        );
        for path in entries(&store) {
            let bytes = fs::read(&path).unwrap();
            assert!(!bytes.windows(CANARY.len()).any(|part| part == CANARY.as_bytes()), "{}", path.display());
        }
    }
}

/// Temporary files of uploads, by their size.
fn uploads(data: &Path) -> Vec<PathBuf> {
    let is_upload = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name.starts_with(".tmp") || name.starts_with("upload")) && path.is_file()
    };
    entries(data).into_iter().filter(is_upload).filter(|path| fs::metadata(path).unwrap().len() > 0).collect()
}

/// Begins to upload an image and does not finish.
fn begin_upload(server: &Server) -> TcpStream {
    let address = server.address();
    let mut stream = TcpStream::connect(address.strip_prefix("http://").unwrap()).unwrap();
    let head = format!(
        "POST /api/images?name=half HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/octet-stream\r\nContent-Length: 10000000\r\n\r\n",
        server.token()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&vec![7; 3_000_000]).unwrap();
    stream
}

#[test]
fn upload_of_a_killed_server_is_removed_and_one_of_a_running_server_is_kept() {
    for fixture in fixtures() {
        let (killed, running) = (Server::begin(&fixture, &[]), Server::begin(&fixture, &[]));
        let uploading = [begin_upload(&killed), begin_upload(&running)];
        until("both uploads have begun", || uploads(&fixture.data()).len() == 2);

        killed.end_with(rustix::process::Signal::KILL);
        fixture.pinfold(&["reconcile"]);

        assert_eq!(uploads(&fixture.data()).len(), 1, "{:?}", uploads(&fixture.data()));
        running.end_with(rustix::process::Signal::KILL);
        drop(uploading);
        let next = Server::begin(&fixture, &[]);
        assert_eq!(uploads(&fixture.data()), [] as [PathBuf; 0]);
        drop(next);
    }
}
