//! The builds that the stages of a test run share, and the programs that each produced.
//!
//! A build saves cargo's messages in `target/xtask/builds/`. Stages find their programs there, in other processes and
//! without cargo, which would wait for the lock of whatever build runs at the same time.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::cargo;

pub(crate) struct Build {
    pub(crate) name: &'static str,
    arguments: &'static [&'static str],
    /// Further arguments in a run of all tests.
    only_all: &'static [&'static str],
    /// Programs to link elsewhere: the build of the tests has other features and replaces them in cargo's directory.
    kept: &'static [&'static str],
}

/// The programs with the features that users get, and what works them from outside.
pub(crate) const PRODUCT: Build = Build {
    name: "product",
    arguments: &[
        "build",
        "--package",
        "pinfold-cli",
        "--package",
        "pinfold-chaos",
        "--package",
        "pinfold-power",
    ],
    only_all: &[],
    kept: &["pinfold", "pinfold-chaos", "pinfold-power"],
};
pub(crate) const TESTS: Build =
    Build { name: "tests", arguments: &["test", "--no-run", "--workspace"], only_all: &[], kept: &[] };
/// Apart from the other tests: features are shared by all that is built at once, and this one disables guards.
pub(crate) const ATTACKS: Build = Build {
    name: "attacks",
    arguments: &[
        "test",
        "--no-run",
        "--package",
        "pinfold-attacks",
        "--features",
        "weakened",
        "--test",
        "attacks",
    ],
    only_all: &[],
    kept: &[],
};
/// What computes for minutes, or runs on an emulated machine, which is slow while its keepers have to answer in time.
pub(crate) const RELEASE: Build = Build {
    name: "release",
    arguments: &[
        "build",
        "--release",
        "--package",
        "pinfold-model-check",
        "--package",
        "pinfold-simulator",
        "--bins",
    ],
    // Only the tests that depend on cgroups: the others do not need that machine.
    only_all: &[
        "--package",
        "pinfold-linux",
        "--test",
        "cgroup",
        "--test",
        "conformance",
        "--test",
        "executions",
        "--test",
        "limits",
    ],
    kept: &[],
};

impl Build {
    /// Cargo, and the file for its messages on standard output.
    pub(crate) fn command(&self, all: bool) -> Result<(Command, File)> {
        let messages = self.messages();
        let directory = messages.parent().unwrap_or(&messages);
        fs::create_dir_all(directory)
            .with_context(|| format!("could not create `{}`", directory.display()))?;
        let file =
            File::create(&messages).with_context(|| format!("could not create `{}`", messages.display()))?;
        let mut command = cargo::command(self.arguments);
        command.args(if all { self.only_all } else { &[] });
        command.args(["--locked", "--message-format=json-render-diagnostics"]);
        Ok((command, file))
    }

    /// Builds on our terminal. Whether it succeeded.
    pub(crate) fn make(&self) -> Result<bool> {
        let (mut command, messages) = self.command(true)?;
        let status = command.stdout(messages).status().context("could not run cargo")?;
        if status.success() {
            self.keep_programs()?;
        }
        Ok(status.success())
    }

    /// Links the programs to keep. To be called after each successful build.
    pub(crate) fn keep_programs(&self) -> Result<()> {
        if self.kept.is_empty() {
            return Ok(());
        }
        let directory = kept_programs();
        fs::create_dir_all(&directory)
            .with_context(|| format!("could not create `{}`", directory.display()))?;
        let programs = self.programs()?;
        for name in self.kept {
            let (from, to) = (program(&programs, name)?, directory.join(name));
            link(&from, &to).with_context(|| format!("could not link `{}`", to.display()))?;
        }
        Ok(())
    }

    /// The programs of the last build.
    pub(crate) fn programs(&self) -> Result<Vec<Program>> {
        let path = self.messages();
        let messages =
            fs::read_to_string(&path).with_context(|| format!("could not read `{}`", path.display()))?;
        Ok(programs_in(&messages))
    }

    fn messages(&self) -> PathBuf {
        cargo::repository_root().join("target/xtask/builds").join(self.name).with_extension("json")
    }
}

/// A program of `PRODUCT`.
pub(crate) fn kept_program(name: &str) -> PathBuf {
    kept_programs().join(name)
}

fn kept_programs() -> PathBuf {
    cargo::repository_root().join("target/xtask/programs")
}

fn link(from: &Path, to: &Path) -> io::Result<()> {
    match fs::remove_file(to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::hard_link(from, to)
}

#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) kind: String,
    pub(crate) name: String,
    /// It runs tests: those of a test target, or those inside a library or program.
    pub(crate) is_harness: bool,
    pub(crate) path: PathBuf,
    /// The directory of its package, in which cargo runs its tests.
    pub(crate) package: PathBuf,
}

pub(crate) fn program(programs: &[Program], name: &str) -> Result<PathBuf> {
    let found = programs.iter().find(|it| it.kind == "bin" && it.name == name && !it.is_harness);
    Ok(found.with_context(|| format!("cargo built no `{name}`"))?.path.clone())
}

/// One message per line; those of programs name an executable.
fn programs_in(messages: &str) -> Vec<Program> {
    let read = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        Some(Program {
            path: message["executable"].as_str()?.into(),
            kind: message["target"]["kind"][0].as_str()?.to_owned(),
            name: message["target"]["name"].as_str()?.to_owned(),
            is_harness: message["profile"]["test"].as_bool()?,
            package: Path::new(message["manifest_path"].as_str()?).parent()?.to_owned(),
        })
    };
    messages.lines().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_and_the_tests_inside_it_are_told_apart() {
        let message = |kind: &str, is_test: bool, path: &str| {
            format!(
                r#"{{"target":{{"kind":["{kind}"],"name":"it"}},"profile":{{"test":{is_test}}},"executable":{path},"manifest_path":"/it/Cargo.toml"}}"#
            )
        };
        let messages = [
            message("bin", true, "\"/target/deps/it-1\""),
            message("bin", false, "\"/target/it\""),
            message("lib", false, "null"),
            "not a message".to_owned(),
        ];

        let built = programs_in(&messages.join("\n"));

        assert_eq!(built.len(), 2);
        assert_eq!(built[0].package, PathBuf::from("/it"));
        assert_eq!(program(&built, "it").unwrap(), PathBuf::from("/target/it"));
        assert!(program(&built, "other").is_err());
    }

    #[test]
    fn a_kept_program_survives_the_replacement_of_the_built_one() {
        let directory = std::env::temp_dir().join(format!("pinfold-kept-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let (built, kept) = (directory.join("built"), directory.join("kept"));
        for text in ["first", "second"] {
            fs::write(&built, text).unwrap();
            link(&built, &kept).unwrap();
            fs::remove_file(&built).unwrap();
            fs::write(&built, "with other features").unwrap();

            assert_eq!(fs::read_to_string(&kept).unwrap(), text);
            fs::remove_file(&built).unwrap();
        }
        fs::remove_dir_all(&directory).unwrap();
    }
}
