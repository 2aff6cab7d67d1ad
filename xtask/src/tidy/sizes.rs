//! A file that keeps growing holds more than one idea.

use anyhow::Result;

use super::Problem;
use super::repository::Repository;

const LONGEST_FILE: usize = 600;

pub(super) fn no_source_file_is_too_long(repository: &Repository) -> Result<Vec<Problem>> {
    let sources = repository.rust_sources().filter(|file| !is_only_tests(&file.path));
    let problems = sources.filter_map(|file| {
        let lines = file.text.lines().count();
        let text = format!("has {lines} lines; past {LONGEST_FILE}, look for a seam");
        (lines > LONGEST_FILE).then(|| Problem::in_file(&file.path, text))
    });
    Ok(problems.collect())
}

/// Tests are lists; they may be long.
fn is_only_tests(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.split('/').any(|directory| directory == "tests")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::problems_in;

    #[test]
    fn a_file_past_the_limit_is_found_unless_it_is_only_tests() {
        let (fits, long) = ("x\n".repeat(600), "x\n".repeat(601));
        let files = [
            ("crates/a/src/fits.rs", fits.as_str()),
            ("crates/a/src/long.rs", &long),
            ("crates/a/src/long/tests.rs", &long),
            ("crates/a/tests/long.rs", &long),
            ("tests/long.rs", &long),
        ];

        let problems = problems_in(no_source_file_is_too_long, &files);

        assert_eq!(problems, ["crates/a/src/long.rs: has 601 lines; past 600, look for a seam"]);
    }
}
