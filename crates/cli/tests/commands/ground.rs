//! A data directory of its own for each test, cleared of every sandbox at the end.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// An ordinary user: nobody in particular.
const SOMEBODY: u32 = 54_321;

/// A data directory of its own, and the program where its user can reach it.
pub(crate) struct Ground {
    directory: tempfile::TempDir,
    user: Option<u32>,
}

impl Ground {
    fn of(user: Option<u32>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        copy(Path::new(env!("CARGO_BIN_EXE_pinfold")), &directory.path().join("pinfold"));
        fs::create_dir(directory.path().join("data")).unwrap();
        chown(directory.path().join("data"), user, user).unwrap();
        Self { directory, user }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.command_of("pinfold", arguments)
    }

    /// The program under the name of another copy of it.
    pub(crate) fn command_of(&self, program: &str, arguments: &[&str]) -> Command {
        let copy = self.directory.path().join(program);
        if !copy.exists() {
            self::copy(&self.directory.path().join("pinfold"), &copy);
        }
        self.prepared(Command::new(copy), arguments)
    }

    /// In a session of its own, whose terminal is its standard input.
    pub(crate) fn command_in_session(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("setsid");
        command.arg("-c").arg(self.directory.path().join("pinfold"));
        self.prepared(command, arguments)
    }

    /// A directory of its user's own, beside the data.
    pub(crate) fn place(&self, name: &str) -> PathBuf {
        let place = self.directory.path().join(name);
        fs::create_dir_all(&place).unwrap();
        chown(&place, self.user, self.user).unwrap();
        place
    }

    /// Another program, as its user, who finds `pinfold` by name.
    pub(crate) fn program(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = self.prepared(Command::new(program), arguments);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.directory.path().display()));
        command
    }

    fn prepared(&self, mut command: Command, arguments: &[&str]) -> Command {
        command.env("PINFOLD_DATA_DIR", self.data()).env_remove("PINFOLD_URL").env_remove("PINFOLD_TOKEN");
        command.args(arguments).stdin(Stdio::null());
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
    }

    pub(crate) fn pinfold(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What it prints as one document.
    pub(crate) fn document(&self, arguments: &[&str]) -> Value {
        let output = self.pinfold(arguments);
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}{}", text(&output.stdout), text(&output.stderr)))
    }

    /// A new sandbox that lives on.
    pub(crate) fn create(&self, arguments: &[&str]) -> String {
        let output = self.pinfold(&[&["create"], arguments].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).trim().to_owned()
    }

    /// Nothing of a body is left where bodies are.
    pub(crate) fn is_clean(&self) -> bool {
        let is_empty = |name: &str| match fs::read_dir(self.data().join("linux").join(name)) {
            Ok(mut entries) => entries.next().is_none(),
            // In memory, and taken away by the last one who used it.
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        };
        ["bodies", "control", "ids"].into_iter().all(is_empty)
    }

    /// Whether root's control groups are there to limit what runs.
    pub(crate) fn has_groups(&self) -> bool {
        self.user.is_none() && is_root()
    }
}

/// By another process: a child that is forked here while a program is written has it open for writing, and until that
/// child has become something else nobody can run the program.
fn copy(program: &Path, to: &Path) {
    assert!(Command::new("cp").arg(program).arg(to).status().unwrap().success());
}

/// No sandbox is left, also after a test that failed. A body that a stop of all that is recorded does not end fails the
/// test, and so does one that somebody has found without a record, also where it was cleared away: a test that takes the
/// last one who could look away looks itself, with `reconcile`.
impl Drop for Ground {
    fn drop(&mut self) {
        let ended = self.end_what_is_recorded();
        let left = self.bodies();
        let history = self.tried(&["events", "--json"]);
        let strays: Vec<_> = history.events().filter(|it| it["event"] == "stray_found").collect();
        let cleared = if left.is_empty() { String::new() } else { self.tried(&["reconcile"]).said };
        if left.is_empty() && strays.is_empty() {
            return;
        }
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        let told = format!(
            "{test}: after all was stopped {left:?} was there, and no record had spoken of {strays:?}, in {}\n\
             {ended}{}{cleared}still there: {:?}",
            self.data().display(),
            history.said,
            self.bodies()
        );
        assert!(std::thread::panicking(), "{told}");
        eprintln!("{told}");
    }
}

/// What a command came to at the end of a test, where nothing may panic.
struct Tried {
    document: Value,
    said: String,
}

impl Tried {
    fn events(&self) -> impl Iterator<Item = &Value> {
        self.document.as_array().into_iter().flatten()
    }
}

impl Ground {
    fn tried(&self, arguments: &[&str]) -> Tried {
        match self.command(arguments).output() {
            Ok(output) => Tried {
                document: serde_json::from_slice(&output.stdout).unwrap_or_default(),
                said: format!("{arguments:?}: {}{}", text(&output.stdout), text(&output.stderr)),
            },
            Err(error) => Tried { document: Value::Null, said: format!("{arguments:?}: {error}\n") },
        }
    }

    /// What was said about it.
    fn end_what_is_recorded(&self) -> String {
        let Tried { document, mut said } = self.tried(&["ps", "--json"]);
        let left = document.as_array().into_iter().flatten();
        let ids: Vec<&str> = left.filter_map(|it| it["id"].as_str()).collect();
        if !ids.is_empty() {
            said += &self.tried(&[&["stop", "--force"], &ids[..]].concat()).said;
        }
        said
    }

    /// By their marks.
    fn bodies(&self) -> Vec<String> {
        let entries = fs::read_dir(self.data().join("linux/control")).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").map(|own| std::os::unix::fs::MetadataExt::uid(&own)).unwrap() == 0
}

/// As root both kinds of user can be tried, else only oneself.
pub(crate) fn grounds() -> Vec<Ground> {
    if is_root() { vec![Ground::of(None), Ground::of(Some(SOMEBODY))] } else { vec![Ground::of(None)] }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Each kind of thing was looked for, and none of it is there.
pub(crate) fn all_absent(receipt: &Value) -> bool {
    let checks = receipt["checks"].as_array().unwrap();
    checks.len() >= 6 && checks.iter().all(|check| check["result"] == "absent")
}

/// Process 1 of the one sandbox there is, as seen from outside.
pub(crate) fn keeper_of(data: &Path) -> Option<u32> {
    let entry = fs::read_dir(data.join("linux/control")).ok()?.next()?.ok()?;
    fs::read_to_string(entry.path().join("process")).ok()?.split(' ').next()?.parse().ok()
}

pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).is_some_and(|state| state != "Z")
}

#[expect(clippy::disallowed_methods, reason = "a test of real processes takes real time")]
pub(crate) fn until(what: &str, met: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !met() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What a document of this project tells its readers to type, in its order.
pub(crate) fn commands_in(document: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(document);
    let text = fs::read_to_string(path).unwrap();
    text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}
