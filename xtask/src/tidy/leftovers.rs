//! Work is finished or not begun: no notes to self, no stubs, no tests or warnings switched off.

use anyhow::Result;

use super::Problem;
use super::repository::Repository;
use super::whole_words::has_word;

// Written in halves, so that this file does not find itself.
const IN_ANY_FILE: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
const IN_SOURCES: &[&str] = &[
    concat!("to", "do!"),
    concat!("unimpl", "emented!"),
    concat!("#[ign", "ore"),
    concat!("db", "g!"),
    concat!("allow(dead", "_code"),
];

pub(super) fn nothing_is_left_unfinished(repository: &Repository) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for file in repository.written_files() {
        let in_sources = if file.path.ends_with(".rs") { IN_SOURCES } else { &[] };
        for (number, line) in file.lines() {
            let found = IN_ANY_FILE.iter().chain(in_sources).filter(|leftover| has_word(line, leftover));
            problems.extend(
                found.map(|leftover| Problem::at_line(&file.path, number, format!("`{leftover}` is left"))),
            );
        }
    }
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::problems_in;

    #[test]
    fn every_kind_of_leftover_is_found() {
        for leftover in IN_ANY_FILE.iter().chain(IN_SOURCES) {
            let text = format!("//! Fine.\n    {leftover} later\n");

            let problems = problems_in(nothing_is_left_unfinished, &[("crates/a/src/lib.rs", &text)]);

            assert_eq!(problems, [format!("crates/a/src/lib.rs:2: `{leftover}` is left")]);
        }
    }

    #[test]
    fn scripts_and_documents_are_searched_for_notes_to_self() {
        let note = format!("# {}: say more\n", IN_ANY_FILE[0]);

        let problems = problems_in(nothing_is_left_unfinished, &[("README.md", &note), (".ci/run", &note)]);

        assert_eq!(problems.len(), 2);
    }

    #[test]
    fn a_template_for_a_temporary_name_is_no_leftover() {
        let script = format!("mktemp /tmp/pinfold.{}\n", IN_ANY_FILE[2].repeat(2));

        assert!(problems_in(nothing_is_left_unfinished, &[(".ci/run", &script)]).is_empty());
    }
}
