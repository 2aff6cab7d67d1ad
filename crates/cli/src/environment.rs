//! Environment variables of commands in a sandbox, from options, from this process and from files. Values from the last
//! two are on no command line, where every user of the host could read them.

use std::collections::BTreeMap;
use std::env::VarError;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

#[derive(Default, clap::Args)]
pub(crate) struct EnvironmentOptions {
    /// Environment variable of commands; without a value, the one of your own environment; may be repeated
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    variables: Vec<String>,
    /// File of environment variables: lines of `NAME=VALUE`, or of `NAME` for the value of your own environment, and
    /// comments that begin with `#`; may be repeated. `--env` has precedence
    #[arg(long = "env-file", value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl EnvironmentOptions {
    pub(crate) fn read(&self) -> Result<BTreeMap<String, String>, Failure> {
        let mut all = BTreeMap::new();
        for file in &self.files {
            all.extend(read_file(file)?);
        }
        for given in &self.variables {
            all.extend([variable(given).map_err(|why| Failure::BadField { field: "env", why })?]);
        }
        Ok(all)
    }
}

/// `NAME=VALUE`, or `NAME` for the value of this process.
fn variable(given: &str) -> Result<(String, String), String> {
    match given.split_once('=') {
        Some(("", _)) => Err("a variable needs a name before `=`".to_owned()),
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Ok((given.to_owned(), own_value(given)?)),
    }
}

fn own_value(name: &str) -> Result<String, String> {
    // `std::env::var` panics on some names that no variable can have.
    let found =
        if name.is_empty() || name.contains('\0') { Err(VarError::NotPresent) } else { std::env::var(name) };
    found.map_err(|error| match error {
        VarError::NotPresent => {
            format!("`{name}` is not set in your environment; set it, or write {name}=VALUE")
        }
        VarError::NotUnicode(_) => format!("the value of `{name}` in your environment is not valid UTF-8"),
    })
}

/// Docker's format: values are taken as they are, with their quotes and spaces.
fn read_file(path: &Path) -> Result<Vec<(String, String)>, Failure> {
    let refused = |why: String| Failure::BadField { field: "env-file", why };
    let content = std::fs::read_to_string(path)
        .map_err(|error| refused(format!("could not read `{}`: {error}", path.display())))?;
    let content = content.strip_prefix('\u{feff}').unwrap_or(&content);
    let lines = content.lines().enumerate().map(|(index, line)| (index + 1, line.trim_start()));
    let variables = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let read = variables.map(|(number, line)| {
        let name = line.split('=').next().unwrap_or_default();
        let checked = if name.contains(char::is_whitespace) {
            Err(format!("the name `{name}` must not contain spaces"))
        } else {
            variable(line)
        };
        checked.map_err(|why| refused(format!("{}:{number}: {why}", path.display())))
    });
    read.collect()
}
