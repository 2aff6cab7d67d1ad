//! Paths, sections and commands named in documents exist, and the map stays short.

use anyhow::Result;
use clap::CommandFactory;

use super::Problem;
use super::markdown::{anchors_in, code_in, headings_of, links_in};
use super::repository::Repository;
use crate::{Arguments, bench};

const OUR_DIRECTORIES: &[&str] = &["crates/", "docs/", "deploy/", "xtask/", "tests/", ".ci/", "benches/"];

pub(super) fn every_path_in_a_document_exists(repository: &Repository) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for document in repository.documents() {
        let named_in_code = code_in(&document.text)
            .into_iter()
            .flat_map(|(line, code)| paths_in_code(code).map(move |path| (line, path.to_owned())));
        let linked = links_in(&document.text)
            .into_iter()
            .filter(|(_, target)| !target.is_empty() && !target.contains(':'))
            .map(|(line, target)| (line, resolve(&document.path, target)));
        for (line, path) in named_in_code.chain(linked) {
            if !repository.has(&path) {
                problems.push(Problem::at_line(&document.path, line, format!("there is no `{path}`")));
            }
        }
    }
    Ok(problems)
}

/// The words that look like a path of ours. A word with a wildcard or a placeholder is none.
fn paths_in_code(code: &str) -> impl Iterator<Item = &str> {
    code.split_whitespace()
        .map(|word| word.trim_end_matches([',', ';', ':', '.', ')']))
        .filter(|word| OUR_DIRECTORIES.iter().any(|directory| word.starts_with(directory)))
        .filter(|word| word.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c)))
}

/// Readers follow a link from the directory of the document it is in.
fn resolve(document: &str, target: &str) -> String {
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

pub(super) fn every_section_linked_in_a_document_exists(repository: &Repository) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for document in repository.documents() {
        let links = anchors_in(&document.text).into_iter().filter(|(_, target, _)| !target.contains(':'));
        for (line, target, anchor) in links {
            let path =
                if target.is_empty() { document.path.clone() } else { resolve(&document.path, target) };
            let Some(linked) = repository.file(&path) else { continue };
            if !headings_of(&linked.text).contains(anchor) {
                let text = format!("`{path}` has no section `{anchor}`");
                problems.push(Problem::at_line(&document.path, line, text));
            }
        }
    }
    Ok(problems)
}

/// Words that a newcomer reads before the first file of code. Depth belongs to `docs/design`.
const MOST_WORDS_OF_THE_MAP: usize = 2_000;

pub(super) fn the_map_of_the_code_stays_short(repository: &Repository) -> Result<Vec<Problem>> {
    let map = repository.file("ARCHITECTURE.md").map_or("", |file| &file.text);
    let words = map.split_whitespace().count();
    let text = format!("has {words} words, at most {MOST_WORDS_OF_THE_MAP}: move depth to `docs/design`");
    let is_long = words > MOST_WORDS_OF_THE_MAP;
    Ok(is_long.then(|| Problem::in_file("ARCHITECTURE.md", text)).into_iter().collect())
}

pub(super) fn every_command_in_a_document_exists(repository: &Repository) -> Result<Vec<Problem>> {
    let known = Arguments::command();
    let mut problems = Vec::new();
    for document in repository.documents() {
        for (line, code) in code_in(&document.text) {
            for (subcommand, argument) in xtask_calls(code) {
                if known.find_subcommand(subcommand).is_none() {
                    let text = format!("there is no `cargo xtask {subcommand}`");
                    problems.push(Problem::at_line(&document.path, line, text));
                } else if subcommand == "bench" && !argument.is_empty() && !bench::is_known(argument) {
                    let text = format!("there is no `cargo xtask bench {argument}`");
                    problems.push(Problem::at_line(&document.path, line, text));
                }
            }
        }
    }
    Ok(problems)
}

/// The two words after each `cargo xtask`. A placeholder such as `NAME` counts as nothing.
fn xtask_calls(code: &str) -> impl Iterator<Item = (&str, &str)> {
    let calls = code.split("cargo xtask ").skip(1).map(|rest| {
        let (subcommand, rest) = first_name(rest);
        let (argument, _) = first_name(rest.strip_prefix(' ').unwrap_or_default());
        (subcommand, argument)
    });
    calls.filter(|(subcommand, _)| !subcommand.is_empty())
}

/// The name that `text` begins with, and the rest.
fn first_name(text: &str) -> (&str, &str) {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let end = text.find(|c| !is_name(c)).unwrap_or(text.len());
    if text.starts_with('-') { ("", text) } else { text.split_at(end) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::problems_in;

    #[test]
    fn a_path_that_is_not_there_is_found_in_spans_blocks_and_links() {
        let readme = "See `crates/gone/` and `crates/here`.\n```\nbash .ci/missing --all\n```\n\
                      [guide](docs/guide.md) [lost](docs/lost.md) [web](https://example.org/docs/x.md)\n";
        let guide =
            "[up](../README.md) [beside](beside.md), `crates/*/src`, `crates/NAME…`, `docs/guide.md`.\n";
        let files = [("README.md", readme), ("docs/guide.md", guide), ("crates/here/src/lib.rs", "")];

        let problems = problems_in(every_path_in_a_document_exists, &files);

        assert_eq!(
            problems,
            [
                "README.md:1: there is no `crates/gone/`",
                "README.md:3: there is no `.ci/missing`",
                "README.md:5: there is no `docs/lost.md`",
                "docs/guide.md:1: there is no `docs/beside.md`",
            ]
        );
    }

    #[test]
    fn a_section_that_is_not_there_is_found_in_this_document_and_in_others() {
        let readme = "# Top\n[up](#top) [down](#bottom) [all](docs/a.md#all) [one](docs/a.md#one) [web](https://x.org/#y)\n";
        let files = [("README.md", readme), ("docs/a.md", "# A\n## All\n")];

        let problems = problems_in(every_section_linked_in_a_document_exists, &files);

        assert_eq!(
            problems,
            [
                "README.md:2: `README.md` has no section `bottom`",
                "README.md:2: `docs/a.md` has no section `one`"
            ]
        );
    }

    #[test]
    fn a_map_that_grew_too_long_is_found() {
        let (fits, long) = ("word ".repeat(2_000), "word ".repeat(2_001));

        assert_eq!(
            problems_in(the_map_of_the_code_stays_short, &[("ARCHITECTURE.md", &fits)]),
            [] as [&str; 0]
        );
        assert_eq!(
            problems_in(the_map_of_the_code_stays_short, &[("ARCHITECTURE.md", &long)]),
            ["ARCHITECTURE.md: has 2001 words, at most 2000: move depth to `docs/design`"]
        );
    }

    #[test]
    fn a_command_that_is_not_there_is_found() {
        let readme = "Run `cargo xtask test --all`, `cargo xtask tset`, `cargo xtask NAME` or `cargo xtask`.\n\
                      ```\ncargo xtask lint && cargo xtask lnit\ncargo xtask bench NAME\ncargo xtask bench nothing\n```\n";

        let problems = problems_in(every_command_in_a_document_exists, &[("README.md", readme)]);

        assert_eq!(
            problems,
            [
                "README.md:1: there is no `cargo xtask tset`",
                "README.md:3: there is no `cargo xtask lnit`",
                "README.md:5: there is no `cargo xtask bench nothing`",
            ]
        );
    }
}
