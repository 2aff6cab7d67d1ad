//! Repository checks that no compiler makes. Each check is a function with a sentence for a name; all run by
//! `cargo xtask tidy`, and each is an ordinary test as well.

mod arrows;
mod deny_rules;
mod dependencies;
mod documents;
mod headers;
mod leftovers;
mod markdown;
mod names;
mod plain_words;
mod purity;
mod repository;
mod sizes;
mod standalone;
mod traps;
mod whole_words;

use std::fmt;

use anyhow::Result;

use crate::cargo;
use repository::Repository;

/// Something to repair, and where.
#[derive(Debug, PartialEq, Eq)]
struct Problem {
    path: String,
    line: Option<usize>,
    text: String,
}

impl Problem {
    fn in_file(path: &str, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: None, text: text.into() }
    }

    fn at_line(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: Some(line), text: text.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.text),
            None => write!(f, "{}: {}", self.path, self.text),
        }
    }
}

type Check = fn(&Repository) -> Result<Vec<Problem>>;

/// One list makes both the table that the command runs and a test for each entry.
macro_rules! checks {
    ($($module:ident::$check:ident,)*) => {
        const CHECKS: &[(&str, Check)] = &[$((stringify!($check), $module::$check),)*];

        #[cfg(test)]
        mod in_this_repository {
            $(
                #[test]
                fn $check() {
                    super::assert_holds(super::$module::$check);
                }
            )*
        }
    };
}

checks! {
    headers::every_source_file_opens_with_a_header,
    sizes::no_source_file_is_too_long,
    leftovers::nothing_is_left_unfinished,
    names::no_module_hides_behind_mod_rs,
    names::every_module_is_named_for_what_it_holds,
    deny_rules::dependencies_are_what_is_allowed,
    documents::every_path_in_a_document_exists,
    documents::every_section_linked_in_a_document_exists,
    documents::every_command_in_a_document_exists,
    documents::the_map_of_the_code_stays_short,
    dependencies::every_dependency_has_a_reason,
    arrows::crates_depend_on_each_other_as_drawn,
    purity::what_is_pure_depends_on_nothing_impure,
    purity::what_is_pure_touches_nothing_outside,
    standalone::the_repository_stands_alone,
    traps::every_trap_has_its_test,
    plain_words::no_old_name_is_left,
    plain_words::comments_and_documents_name_who_acts,
    plain_words::documents_have_no_indefinite_pronouns,
}

/// Whether every check holds. Prints what does not.
pub(crate) fn run() -> Result<bool> {
    let repository = Repository::read(&cargo::repository_root())?;
    let mut failed = 0;
    for (name, check) in CHECKS {
        let problems = check(&repository)?;
        if problems.is_empty() {
            continue;
        }
        failed += 1;
        println!("tidy: failed: {}", name.replace('_', " "));
        for problem in problems {
            println!("  {problem}");
        }
    }
    println!("tidy: {} of {} checks hold", CHECKS.len() - failed, CHECKS.len());
    Ok(failed == 0)
}

#[cfg(test)]
fn assert_holds(check: Check) {
    let repository = Repository::read(&cargo::repository_root()).unwrap();

    let problems = check(&repository).unwrap();

    let shown: Vec<String> = problems.iter().map(Problem::to_string).collect();
    assert!(shown.is_empty(), "\n{}", shown.join("\n"));
}

/// What a check says about a tree made of these files.
#[cfg(test)]
fn problems_in(check: Check, files: &[(&str, &str)]) -> Vec<String> {
    let problems = check(&Repository::of(files)).unwrap();
    problems.iter().map(Problem::to_string).collect()
}
