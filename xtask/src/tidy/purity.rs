//! The lifecycle and the alert rules stay pure: no clock, no files, no network, no threads, no log, no runtime.
//! That is what lets the model checker explore them and the simulator replay them.

use anyhow::Result;

use super::Problem;
use super::repository::Repository;
use super::whole_words::{has_word, is_word};
use crate::cargo;

/// Their packages, and where they are.
const PURE: &[(&str, &str)] = &[
    ("pinfold-lifecycle", "crates/lifecycle"),
    ("pinfold-alerts", "crates/alerts"),
    ("pinfold-backoff", "crates/backoff"),
];

/// An allow list, since a deny list would never be complete.
const ALLOWED_CRATES: &[&str] = &[
    "pinfold-alerts",
    "pinfold-backoff",
    "pinfold-lifecycle",
    "proc-macro2",
    "quote",
    "serde",
    "serde_core",
    "serde_derive",
    "syn",
    "thiserror",
    "thiserror-impl",
    "unicode-ident",
];

const IMPURE_MODULES: &[&str] = &["env", "fs", "io", "net", "process", "thread", "time"];
const IMPURE_MACROS: &[&str] = &["print!", "println!", "eprint!", "eprintln!"];

pub(super) fn what_is_pure_depends_on_nothing_impure(_: &Repository) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for (package, directory) in PURE {
        let package = format!("--package={package}");
        // Not `--offline`: on a new machine this may be the first command that needs these crates.
        let tree = cargo::output(&[
            "tree",
            &package,
            "--edges=normal",
            "--prefix=none",
            "--all-features",
            "--locked",
        ])?;
        problems.extend(crates_not_allowed(directory, &tree));
    }
    Ok(problems)
}

/// Reads lines such as `serde v1.0.228 (proc-macro)`.
fn crates_not_allowed(directory: &str, tree: &str) -> Vec<Problem> {
    let crates = tree.lines().filter_map(|line| line.split_whitespace().next());
    let mut strangers: Vec<&str> = crates.filter(|name| !ALLOWED_CRATES.contains(name)).collect();
    strangers.sort_unstable();
    strangers.dedup();
    let manifest = format!("{directory}/Cargo.toml");
    strangers.iter().map(|name| Problem::in_file(&manifest, format!("depends on `{name}`"))).collect()
}

pub(super) fn what_is_pure_touches_nothing_outside(repository: &Repository) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    let is_pure =
        |path: &str| PURE.iter().any(|(_, directory)| path.starts_with(&format!("{directory}/src/")));
    for file in repository.rust_sources().filter(|file| is_pure(&file.path)) {
        for (number, line) in file.lines() {
            let problem = |what: &str| Problem::at_line(&file.path, number, format!("mentions `{what}`"));
            let modules = IMPURE_MODULES.iter().map(|module| format!("std::{module}"));
            problems.extend(modules.filter(|module| has_word(line, module)).map(|module| problem(&module)));
            let macros = IMPURE_MACROS.iter().filter(|name| has_word(line, name));
            problems.extend(macros.map(|name| problem(name)));
        }
        for module in modules_imported_in_groups(&file.text) {
            problems.push(Problem::in_file(&file.path, format!("mentions `std::{module}` in a group")));
        }
    }
    Ok(problems)
}

/// The impure ones among `use std::{fmt, io::Read}`, where a search for `std::io` would find nothing.
fn modules_imported_in_groups(text: &str) -> Vec<&str> {
    let groups = text.split("std::{").skip(1).filter_map(|rest| rest.split(';').next());
    let names = groups.flat_map(|group| group.split([',', '{', '}'])).map(|item| {
        let item = item.trim_start();
        &item[..item.find(|c| !is_word(c)).unwrap_or(item.len())]
    });
    names.filter(|name| IMPURE_MODULES.contains(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::problems_in;

    #[test]
    fn a_crate_that_is_not_allowed_is_found_once() {
        let tree =
            "pinfold-lifecycle v0.1.0 (path)\nserde v1.0.0\ntokio v1.0.0\nlog v0.4.0\ntokio v1.0.0 (*)\n";

        let problems: Vec<String> =
            crates_not_allowed("crates/lifecycle", tree).iter().map(Problem::to_string).collect();

        assert_eq!(
            problems,
            [
                "crates/lifecycle/Cargo.toml: depends on `log`",
                "crates/lifecycle/Cargo.toml: depends on `tokio`"
            ]
        );
    }

    #[test]
    fn a_source_that_reaches_outside_is_found() {
        let lines =
            ["std::fs", "std::net", "std::io", "std::process", "std::env", "std::thread", "std::time"];
        for outside in lines.iter().chain(["println!", "eprintln!"].iter()) {
            let text = format!("//! Header.\nlet x = {outside}(1);\n");

            let problems = problems_in(
                what_is_pure_touches_nothing_outside,
                &[("crates/lifecycle/src/lib.rs", &text), ("crates/store/src/lib.rs", &text)],
            );

            assert_eq!(problems, [format!("crates/lifecycle/src/lib.rs:2: mentions `{outside}`")]);
        }
    }

    #[test]
    fn a_source_that_reaches_outside_by_a_group_of_imports_is_found() {
        let text =
            "use std::{\n    collections::BTreeMap,\n    time::Duration,\n};\nuse std::{fmt, ops::Not};\n";

        let problems =
            problems_in(what_is_pure_touches_nothing_outside, &[("crates/lifecycle/src/lib.rs", text)]);

        assert_eq!(problems, ["crates/lifecycle/src/lib.rs: mentions `std::time` in a group"]);
    }
}
