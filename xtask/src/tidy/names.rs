//! A search hit names the thing it found, so a file is named for what it holds.

use anyhow::Result;

use super::Problem;
use super::repository::Repository;

/// Names without meaning.
const EMPTY_NAMES: &[&str] = &["util", "utils", "common", "helper", "helpers", "manager", "managers", "misc"];

pub(super) fn no_module_hides_behind_mod_rs(repository: &Repository) -> Result<Vec<Problem>> {
    let hidden = repository.rust_sources().filter(|file| file.path.ends_with("/mod.rs"));
    Ok(hidden.map(|file| Problem::in_file(&file.path, "write `x.rs` beside `x/` instead")).collect())
}

pub(super) fn every_module_is_named_for_what_it_holds(repository: &Repository) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for file in repository.rust_sources() {
        for name in file.path.trim_end_matches(".rs").split('/').filter(|name| EMPTY_NAMES.contains(name)) {
            problems.push(Problem::in_file(&file.path, format!("`{name}` says nothing about what is in it")));
        }
        for (number, line) in file.lines() {
            if let Some(name) = declared_module(line).filter(|name| EMPTY_NAMES.contains(name)) {
                let text = format!("`{name}` says nothing about what is in it");
                problems.push(Problem::at_line(&file.path, number, text));
            }
        }
    }
    Ok(problems)
}

/// The name in a line such as `pub(crate) mod name;`.
fn declared_module(line: &str) -> Option<&str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let name = match words.as_slice() {
        ["mod", name, ..] => name,
        [visibility, "mod", name, ..] if visibility.starts_with("pub") => name,
        _ => return None,
    };
    Some(name.trim_end_matches([';', '{']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::problems_in;

    #[test]
    fn a_mod_rs_is_found() {
        let files = [("crates/a/src/lease/mod.rs", ""), ("crates/a/src/lease.rs", "")];

        let problems = problems_in(no_module_hides_behind_mod_rs, &files);

        assert_eq!(problems, ["crates/a/src/lease/mod.rs: write `x.rs` beside `x/` instead"]);
    }

    #[test]
    fn a_name_that_says_nothing_is_found_in_files_directories_and_declarations() {
        let files = [
            ("crates/a/src/utils.rs", ""),
            ("crates/a/tests/common/start.rs", ""),
            ("crates/a/src/lib.rs", "pub(crate) mod helpers {\nmod manager;\nmod commonly_used;\n"),
        ];

        let problems = problems_in(every_module_is_named_for_what_it_holds, &files);

        assert_eq!(
            problems,
            [
                "crates/a/src/utils.rs: `utils` says nothing about what is in it",
                "crates/a/tests/common/start.rs: `common` says nothing about what is in it",
                "crates/a/src/lib.rs:1: `helpers` says nothing about what is in it",
                "crates/a/src/lib.rs:2: `manager` says nothing about what is in it",
            ]
        );
    }
}
