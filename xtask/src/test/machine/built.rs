//! Programs built for a machine, found by cargo's JSON messages.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::cargo;

pub(in crate::test) struct Built {
    pub(in crate::test) kind: String,
    pub(in crate::test) name: String,
    is_harness: bool,
    pub(in crate::test) program: PathBuf,
}

pub(in crate::test) fn program(built: &[Built], name: &str) -> Result<PathBuf> {
    let found = built.iter().find(|it| it.kind == "bin" && it.name == name && !it.is_harness);
    Ok(found.with_context(|| format!("cargo built no `{name}`"))?.program.clone())
}

/// Runs a cargo build and returns the executables.
pub(in crate::test) fn built(arguments: &[&str]) -> Result<Vec<Built>> {
    let messages = [arguments, &["--locked", "--message-format=json-render-diagnostics"]].concat();
    Ok(named_in(&cargo::output(&messages)?))
}

/// One message per line; those of programs name an executable.
fn named_in(messages: &str) -> Vec<Built> {
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

        let built = named_in(&messages.join("\n"));

        assert_eq!(built.len(), 2);
        assert_eq!(program(&built, "it").unwrap(), PathBuf::from("/target/it"));
        assert!(program(&built, "other").is_err());
    }
}
