//! The repository refers to nothing outside itself: no path of a particular machine, no document that is kept
//! elsewhere, no package registry by its host name.

use anyhow::Result;

use super::Problem;
use super::repository::Repository;
use super::whole_words::is_word;

// Written in halves, so that this file does not find itself.
const OUTSIDE: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("../sha", "red"),
    concat!("shared/", "design"),
    concat!("crates", ".io"),
    concat!("npm", "js"),
    concat!("pypi", ".org"),
    concat!("deb.", "debian.org"),
];

/// What the numbers of requirements begin with. Readers of this repository do not have that list.
const REQUIREMENT_KINDS: &[&str] = &["RB", "IS", "SF", "AG", "KL"];

pub(super) fn the_repository_stands_alone(repository: &Repository) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for file in repository.written_files() {
        for (number, line) in file.lines() {
            let outside = OUTSIDE.iter().filter(|outside| line.contains(*outside)).copied();
            problems.extend(
                outside
                    .chain(requirement_in(line))
                    .map(|what| Problem::at_line(&file.path, number, format!("names `{what}`"))),
            );
        }
    }
    Ok(problems)
}

/// The first whole word of two capitals, a hyphen and three digits.
fn requirement_in(line: &str) -> Option<&str> {
    line.match_indices('-').find_map(|(hyphen, _)| {
        let start = hyphen.checked_sub(2)?;
        let end = hyphen + 4;
        let kind = line.get(start..hyphen)?;
        let number = line.get(hyphen + 1..end)?;
        let stands_free = !line[..start].ends_with(is_word) && !line[end..].starts_with(is_word);
        let is_requirement =
            REQUIREMENT_KINDS.contains(&kind) && number.bytes().all(|byte| byte.is_ascii_digit());
        (is_requirement && stands_free).then(|| &line[start..end])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::problems_in;

    #[test]
    fn everything_that_is_outside_is_found() {
        for outside in OUTSIDE {
            let text = format!("fine\nsee {outside} for more\n");
            let files = [("docs/a.md", text.as_str()), ("Cargo.lock", &text)];

            let problems = problems_in(the_repository_stands_alone, &files);

            assert_eq!(problems, [format!("docs/a.md:2: names `{outside}`")]);
        }
    }

    #[test]
    fn a_requirement_is_found_by_its_number() {
        for kind in REQUIREMENT_KINDS {
            let requirement = format!("{kind}-{}", "012");
            let text = format!("// As ({requirement}) says.\n");

            let problems = problems_in(the_repository_stands_alone, &[("crates/a/src/lib.rs", &text)]);

            assert_eq!(problems, [format!("crates/a/src/lib.rs:1: names `{requirement}`")]);
        }
    }

    #[test]
    fn text_that_resembles_a_requirement_is_accepted() {
        let kind = REQUIREMENT_KINDS[0];
        let text = format!("a{kind}-012 {kind}-0123 {kind}-01 SHA-256 é-123 -1");

        assert!(problems_in(the_repository_stands_alone, &[("README.md", &text)]).is_empty());
    }
}
