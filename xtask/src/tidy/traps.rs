//! Every known trap listed in `docs/testing.md` has its test, under the name given there.

use std::collections::BTreeSet;

use anyhow::Result;

use super::Problem;
use super::repository::Repository;

const DOCUMENT: &str = "docs/testing.md";
const BEGIN: &str = "<!-- traps:begin -->";
const END: &str = "<!-- traps:end -->";

pub(super) fn every_trap_has_its_test(repository: &Repository) -> Result<Vec<Problem>> {
    let Some(document) = repository.file(DOCUMENT) else {
        return Ok(vec![Problem::in_file(DOCUMENT, "is not there")]);
    };
    let tests: BTreeSet<&str> = repository.rust_sources().flat_map(|file| tests_in(&file.text)).collect();
    let after_begin = document.lines().skip_while(|(_, line)| *line != BEGIN);
    let table = after_begin.skip(1).take_while(|(_, line)| *line != END);
    let mut rows = table.filter(|(_, line)| line.starts_with('|')).skip(2).peekable();
    if rows.peek().is_none() {
        let text = format!("has no table between `{BEGIN}` and `{END}`");
        return Ok(vec![Problem::in_file(DOCUMENT, text)]);
    }
    let mut problems = Vec::new();
    for (number, row) in rows {
        let named: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
        if named.is_empty() {
            problems.push(Problem::at_line(DOCUMENT, number, "this trap has no test"));
        }
        for name in named.into_iter().filter(|name| !tests.contains(name)) {
            problems.push(Problem::at_line(DOCUMENT, number, format!("there is no test `{name}`")));
        }
    }
    Ok(problems)
}

/// The names of functions that are marked as tests.
fn tests_in(source: &str) -> impl Iterator<Item = &str> {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let is_mark = |line: &str| line == "#[test]" || line.starts_with("#[tokio::test");
    let names = lines.windows(2).filter(move |pair| is_mark(pair[0])).filter_map(|pair| {
        let (_, name) = pair[1].split_once("fn ")?;
        name.split('(').next()
    });
    names.collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::problems_in;

    const SOURCE: &str = "//! Tests.\n#[test]\nfn there() {}\n\nfn no_test() {}\n\
                          mod deeper {\n    #[tokio::test(start_paused = true)]\n    async fn also_there() {}\n}\n";

    fn problems(rows: &str) -> Vec<String> {
        let document =
            format!("# Words\n| `elsewhere` |\n{BEGIN}\n\n| trap | test |\n|---|---|\n{rows}\n{END}\n");
        problems_in(every_trap_has_its_test, &[(DOCUMENT, &document), ("crates/a/tests/a.rs", SOURCE)])
    }

    #[test]
    fn a_trap_whose_test_is_gone_is_found() {
        let found =
            problems("| one | `there`, `also_there` |\n| two | `gone` |\n| three | `no_test` |\n| four | |");

        assert_eq!(
            found,
            [
                "docs/testing.md:8: there is no test `gone`",
                "docs/testing.md:9: there is no test `no_test`",
                "docs/testing.md:10: this trap has no test",
            ]
        );
    }

    #[test]
    fn a_document_without_traps_is_found() {
        assert_eq!(problems("").len(), 1);
        assert_eq!(problems("| one | `there` |"), [] as [&str; 0]);
    }
}
