//! The fixture of a test: its own data directory and copy of the program. On drop it stops all sandboxes and checks that
//! nothing is left.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use pinfold_test_support::UNPRIVILEGED_UID;
use serde_json::Value;

/// A data directory, and a copy of the program that its user can run.
pub(crate) struct Fixture {
    directory: tempfile::TempDir,
    user: Option<u32>,
}

impl Fixture {
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

    /// The program copied under another name.
    pub(crate) fn command_of(&self, program: &str, arguments: &[&str]) -> Command {
        let copy = self.directory.path().join(program);
        if !copy.exists() {
            self::copy(&self.directory.path().join("pinfold"), &copy);
        }
        self.prepared(Command::new(copy), arguments)
    }

    /// Runs in a new session whose controlling terminal is standard input.
    pub(crate) fn command_in_session(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("setsid");
        command.arg("-c").arg(self.directory.path().join("pinfold"));
        self.prepared(command, arguments)
    }

    /// A directory owned by the user, beside the data directory.
    pub(crate) fn directory(&self, name: &str) -> PathBuf {
        let directory = self.directory.path().join(name);
        fs::create_dir_all(&directory).unwrap();
        chown(&directory, self.user, self.user).unwrap();
        directory
    }

    /// Another program, run as the user with `pinfold` in its PATH.
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

    /// Runs a command and parses its JSON output.
    pub(crate) fn document(&self, arguments: &[&str]) -> Value {
        let output = self.pinfold(arguments);
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}{}", text(&output.stdout), text(&output.stderr)))
    }

    /// Creates a sandbox and returns its id.
    pub(crate) fn create(&self, arguments: &[&str]) -> String {
        let output = self.pinfold(&[&["create"], arguments].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).trim().to_owned()
    }

    /// Whether the directories of instances are empty.
    pub(crate) fn is_clean(&self) -> bool {
        let is_empty = |name: &str| match fs::read_dir(self.data().join("linux").join(name)) {
            Ok(mut entries) => entries.next().is_none(),
            // A tmpfs that its last user unmounted.
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        };
        ["instances", "control", "ids"].into_iter().all(is_empty)
    }

    /// Whether control groups are available, which need root.
    pub(crate) fn has_groups(&self) -> bool {
        self.user.is_none() && is_root()
    }
}

/// Copies in another process. A child forked here during the copy would inherit the file open for writing, and until it
/// calls exec, running the copy would fail with ETXTBSY.
fn copy(program: &Path, to: &Path) {
    assert!(Command::new("cp").arg(program).arg(to).status().unwrap().success());
}

/// Stops all sandboxes, also after a failed test. Fails the test if an instance is left after all recorded sandboxes were
/// stopped, or if any process found an instance without a record, even if it removed it. A test that kills the last
/// observer runs `reconcile` itself.
impl Drop for Fixture {
    fn drop(&mut self) {
        let ended = self.stop_recorded();
        let left = self.instances();
        let history = self.try_command(&["events", "--json"]);
        let strays: Vec<_> = history.events().filter(|it| it["event"] == "stray_found").collect();
        let cleared = if left.is_empty() { String::new() } else { self.try_command(&["reconcile"]).output };
        if left.is_empty() && strays.is_empty() {
            return;
        }
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        let output = format!(
            "{test}: {left:?} was left after all sandboxes were stopped, and {strays:?} had no record, in {}\n\
             {ended}{}{cleared}still there: {:?}",
            self.data().display(),
            history.output,
            self.instances()
        );
        assert!(std::thread::panicking(), "{output}");
        eprintln!("{output}");
    }
}

/// The result of a command at the end of a test, where nothing may panic.
struct CommandResult {
    document: Value,
    output: String,
}

impl CommandResult {
    fn events(&self) -> impl Iterator<Item = &Value> {
        self.document.as_array().into_iter().flatten()
    }
}

impl Fixture {
    fn try_command(&self, arguments: &[&str]) -> CommandResult {
        match self.command(arguments).output() {
            Ok(output) => CommandResult {
                document: serde_json::from_slice(&output.stdout).unwrap_or_default(),
                output: format!("{arguments:?}: {}{}", text(&output.stdout), text(&output.stderr)),
            },
            Err(error) => {
                CommandResult { document: Value::Null, output: format!("{arguments:?}: {error}\n") }
            }
        }
    }

    /// Stops all recorded sandboxes and returns the output of the commands.
    fn stop_recorded(&self) -> String {
        let CommandResult { document, mut output } = self.try_command(&["ps", "--json"]);
        let left = document.as_array().into_iter().flatten();
        let ids: Vec<&str> = left.filter_map(|it| it["id"].as_str()).collect();
        if !ids.is_empty() {
            output += &self.try_command(&[&["stop", "--force"], &ids[..]].concat()).output;
        }
        output
    }

    /// Names of the instances on disk.
    fn instances(&self) -> Vec<String> {
        let entries = fs::read_dir(self.data().join("linux/control")).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").map(|own| std::os::unix::fs::MetadataExt::uid(&own)).unwrap() == 0
}

/// As root: fixtures for root and for an unprivileged user; else only for the current user.
pub(crate) fn fixtures() -> Vec<Fixture> {
    if is_root() {
        vec![Fixture::of(None), Fixture::of(Some(UNPRIVILEGED_UID))]
    } else {
        vec![Fixture::of(None)]
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether the receipt has all checks and all are absent.
pub(crate) fn all_absent(receipt: &Value) -> bool {
    let checks = receipt["checks"].as_array().unwrap();
    checks.len() >= 6 && checks.iter().all(|check| check["result"] == "absent")
}

/// Pid of process 1 of the only sandbox, in the host's namespace.
pub(crate) fn keeper_of(data: &Path) -> Option<u32> {
    let entry = fs::read_dir(data.join("linux/control")).ok()?.next()?.ok()?;
    fs::read_to_string(entry.path().join("keeper.pid")).ok()?.split(' ').next()?.parse().ok()
}

pub(crate) fn is_alive(pid: u32) -> bool {
    pinfold_procfs::start_time(pid.try_into().unwrap()).unwrap().is_some()
}

/// The shell commands of a document, in order.
pub(crate) fn commands_in(document: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(document);
    let text = fs::read_to_string(path).unwrap();
    text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}
