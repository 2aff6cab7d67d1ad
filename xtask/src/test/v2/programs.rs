//! What is built to be run on the machine, found by what cargo says of it.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::cargo;

/// Every program is looked for by tests where it was built, so that is where the machine has it.
pub(super) struct Programs {
    pub(super) tests: Vec<Test>,
    pub(super) nursery: PathBuf,
    pub(super) pinfold: PathBuf,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Test {
    pub(super) name: String,
    pub(super) program: PathBuf,
}

/// Those that groups matter to. An emulator is slow, and the others know nothing of groups.
const OF_GROUPS: [&str; 4] = ["cgroup", "conformance", "executions", "limits"];

pub(super) fn build() -> Result<Programs> {
    let json = "--message-format=json-render-diagnostics";
    // An emulator is slow, and keepers have to answer in time.
    let linux = ["test", "--no-run", "--release", "--locked", "--package", "pinfold-linux", json];
    let linux = built(&cargo::output(&linux)?);
    let cli = built(&cargo::output(&["build", "--locked", "--package", "pinfold-cli", json])?);
    Ok(Programs {
        nursery: program(&linux, "pinfold-nursery")?,
        pinfold: program(&cli, "pinfold")?,
        tests: linux
            .into_iter()
            .filter(|it| it.kind == "test" && OF_GROUPS.contains(&it.name.as_str()))
            .map(|it| Test { name: it.name, program: it.program })
            .collect(),
    })
}

struct Built {
    kind: String,
    name: String,
    is_harness: bool,
    program: PathBuf,
}

fn program(built: &[Built], name: &str) -> Result<PathBuf> {
    let found = built.iter().find(|it| it.kind == "bin" && it.name == name && !it.is_harness);
    Ok(found.with_context(|| format!("cargo built no `{name}`"))?.program.clone())
}

/// One message a line; those of programs name an executable.
fn built(messages: &str) -> Vec<Built> {
    let read = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        Some(Built {
            program: message["executable"].as_str()?.into(),
            kind: message["target"]["kind"][0].as_str()?.to_owned(),
            name: message["target"]["name"].as_str()?.to_owned(),
            is_harness: message["profile"]["test"].as_bool()?,
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
                r#"{{"target":{{"kind":["{kind}"],"name":"it"}},"profile":{{"test":{is_test}}},"executable":{path}}}"#
            )
        };
        let messages = [
            message("bin", true, "\"/target/deps/it-1\""),
            message("bin", false, "\"/target/it\""),
            message("lib", false, "null"),
            "not a message".to_owned(),
        ];

        let built = built(&messages.join("\n"));

        assert_eq!(built.len(), 2);
        assert_eq!(program(&built, "it").unwrap(), PathBuf::from("/target/it"));
        assert!(program(&built, "other").is_err());
    }
}
