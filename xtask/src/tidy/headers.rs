//! Each source file opens with a short paragraph that says what it is for. Diagrams and lists of types may follow.

use anyhow::Result;

use super::Problem;
use super::repository::Repository;

/// Lines of the first paragraph, up to an empty `//!` line.
const LONGEST_HEADER: usize = 5;

pub(super) fn every_source_file_opens_with_a_header(repository: &Repository) -> Result<Vec<Problem>> {
    let problems = repository.rust_sources().filter_map(|file| {
        let header = file.text.lines().take_while(|line| line.starts_with("//! "));
        match header.count() {
            0 => Some(Problem::in_file(&file.path, "does not open with `//!` lines that say what it is for")),
            1..=LONGEST_HEADER => None,
            n => Some(Problem::in_file(
                &file.path,
                format!("opens with a paragraph of {n} `//!` lines; {LONGEST_HEADER} are enough"),
            )),
        }
    });
    Ok(problems.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::problems_in;

    #[test]
    fn a_file_without_a_header_is_found() {
        let files = [
            ("crates/a/src/lib.rs", "//! Good.\n\nfn f() {}\n"),
            ("crates/a/tests/late.rs", "\n//! Too late.\n"),
            ("benches/empty.rs", ""),
            ("docs/sample.rs", "not a source of ours"),
        ];

        let problems = problems_in(every_source_file_opens_with_a_header, &files);

        assert_eq!(
            problems,
            [
                "crates/a/tests/late.rs: does not open with `//!` lines that say what it is for",
                "benches/empty.rs: does not open with `//!` lines that say what it is for",
            ]
        );
    }

    #[test]
    fn a_first_paragraph_that_is_too_long_is_found_and_a_diagram_after_it_is_not() {
        let (five, six) = ("//! Line.\n".repeat(5), "//! Line.\n".repeat(6));
        let diagram = format!("//! What it is.\n//!\n{six}");

        let problems = problems_in(
            every_source_file_opens_with_a_header,
            &[("xtask/src/five.rs", &five), ("xtask/src/six.rs", &six), ("xtask/src/diagram.rs", &diagram)],
        );

        assert_eq!(problems, ["xtask/src/six.rs: opens with a paragraph of 6 `//!` lines; 5 are enough"]);
    }
}
