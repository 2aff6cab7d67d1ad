//! Names and comments use the field's words: no identifier of the old private dialect comes back, and comments and
//! documents name the actor instead of an indefinite pronoun.

use anyhow::Result;

use super::Problem;
use super::repository::{File, Repository};
use super::whole_words::{count_word, has_word};

/// Identifiers that were renamed, each with the word to use instead. Only names that no longer have a legitimate use.
const OLD_IDENTIFIERS: &[(&str, &str)] = &[
    ("Incarnation", "instance"),
    ("incarnation", "instance"),
    ("incarnations", "instances"),
    ("Ask", "Request"),
    ("CreateAsk", "CreateRequest"),
    ("asker", "requester"),
    ("Duty", "PendingEffect"),
    ("Fed", "WriteResult"),
    ("census", "node_liveness"),
    ("Census", "NodeLiveness"),
    ("HostCensus", "node_liveness"),
    ("nursery", "spawner"),
    ("Nursery", "Spawner"),
    ("NurseryProgram", "SpawnerProgram"),
    ("Birth", "SpawnRequest"),
    ("Newborn", "spawned process"),
    ("cradle", "spawner"),
    ("errands", "effect_tasks"),
    ("Errands", "EffectTasks"),
    ("set_about", "spawn_effect"),
    ("run_errand", "run_effect"),
    ("onlooker", "observer"),
    ("Onlooker", "Observer"),
    ("keep_time", "deadline_loop"),
    ("keep_company", "heartbeat_loop"),
    ("keep_tidy", "retention_loop"),
    ("keep_reconciled", "reconcile_loop"),
    ("keep_pooled", "pool_loop"),
    ("keep_queue", "queue_loop"),
    ("Bell", "ChangeNotifier"),
    ("Luggage", "ExecutionFiles"),
    ("luggage", "execution files"),
    ("furnish", "with_defaults"),
    ("attended", "the execution state `Collecting`"),
    ("Attended", "the execution state `Collecting`"),
    ("under_way", "in flight"),
    ("shared_look", "single-flight observation"),
    ("Feign", "ReturnZero"),
    ("Shelf", "LayerStore"),
    ("Doorkeeper", "authentication"),
    ("Teller", "request id"),
    ("Desk", "alert state"),
    ("CameTo", "outcome"),
    ("came_to", "outcome"),
    ("Figures", "metrics"),
    ("Weather", "faults"),
    ("Mischief", "faults"),
    ("Crowd", "sandboxes"),
    ("Herd", "sandboxes"),
    ("Ground", "Fixture"),
];

/// Names of files and modules. Most of these words are fine as the name of a local variable.
const OLD_MODULES: &[(&str, &str)] = &[
    ("ask", "request"),
    ("asks", "requests"),
    ("duty", "pending_effect"),
    ("questions", "prefetch"),
    ("known", "row_cache"),
    ("remark", "log_message"),
    ("witness", "observer"),
    ("lanes", "concurrency_limits"),
    ("ring", "change_notifier"),
    ("bell", "change_notifier"),
    ("waiters", "change_notifier"),
    ("hold", "pid_lock"),
    ("mark", "instance_name"),
    ("places", "paths"),
    ("grounds", "paths"),
    ("rush", "kill batching"),
    ("aside", "blocking work"),
    ("patience", "backoff or deadline"),
    ("look", "observe"),
    ("doors", "syscall_groups"),
    ("shelf", "layer_store"),
    ("care", "admin operations"),
    ("troubles", "diagnosis"),
    ("words", "conversion"),
    ("told", "view"),
    ("standing", "gauges"),
    ("news", "change feed"),
    ("settling", "what it holds"),
    ("desk", "alert state"),
    ("doorkeeper", "authentication"),
    ("teller", "request_id"),
    ("counted", "metrics"),
    ("measured", "metrics"),
    ("figures", "metrics"),
    ("crowd", "cleanup-e2e or users"),
    ("storm", "faults"),
    ("weather", "faults"),
    ("mischief", "faults"),
    ("ground", "fixture"),
    ("stage", "fixture"),
    ("herd", "fixture"),
    ("chores", "schedule or health"),
    ("chore", "schedule"),
    ("bodies", "instances"),
    ("body", "instance"),
];

/// Pronouns that stand where a sentence should name who acts.
const PRONOUNS: &[&str] = &[concat!("who", "ever"), concat!("some", "body"), concat!("no", "body")];

/// How many of these pronouns comments and documents may have in all.
const MOST_PRONOUNS: usize = 60;

/// This file lists the old names, so that it would find itself.
const THIS_FILE: &str = "xtask/src/tidy/plain_words.rs";

pub(super) fn no_old_name_is_left(repository: &Repository) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for file in repository.rust_sources().filter(|file| file.path != THIS_FILE) {
        let parts = file.path.trim_end_matches(".rs").split('/');
        let old_parts = parts.filter_map(|part| old_module(part).map(|new| (part, new)));
        problems.extend(old_parts.map(|(old, new)| Problem::in_file(&file.path, advice(old, new))));
        for (number, line) in code_lines(&file.text) {
            let found = OLD_IDENTIFIERS.iter().filter(|(old, _)| has_word(&line, old));
            problems.extend(found.map(|(old, new)| Problem::at_line(&file.path, number, advice(old, new))));
            if let Some((old, new)) = declared_module(&line).and_then(|old| Some((old, old_module(old)?))) {
                problems.push(Problem::at_line(&file.path, number, advice(old, new)));
            }
        }
    }
    Ok(problems)
}

pub(super) fn comments_and_documents_name_who_acts(repository: &Repository) -> Result<Vec<Problem>> {
    let per_file: Vec<(usize, &File)> = repository
        .written_files()
        .filter(|file| file.path != THIS_FILE)
        .map(|file| (pronouns_in(file), file))
        .filter(|(count, _)| *count > 0)
        .collect();
    let total: usize = per_file.iter().map(|(count, _)| count).sum();
    if total <= MOST_PRONOUNS {
        return Ok(Vec::new());
    }
    let text = |count: &usize| {
        format!(
            "{count} of {total} indefinite pronouns ({}), at most {MOST_PRONOUNS} in all",
            PRONOUNS.join(", ")
        )
    };
    Ok(per_file.iter().map(|(count, file)| Problem::in_file(&file.path, text(count))).collect())
}

/// Comments may have a few; documents, which people read in full, have none.
pub(super) fn documents_have_no_indefinite_pronouns(repository: &Repository) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for document in repository.documents() {
        for (number, line) in document.lines() {
            let line = line.to_lowercase();
            let found = PRONOUNS.iter().filter(|pronoun| count_word(&line, pronoun) > 0);
            problems.extend(found.map(|pronoun| {
                Problem::at_line(&document.path, number, format!("`{pronoun}`: name who acts"))
            }));
        }
    }
    Ok(problems)
}

fn advice(old: &str, new: &str) -> String {
    format!("`{old}` is an old name: use {new}")
}

fn old_module(name: &str) -> Option<&'static str> {
    let entry = OLD_MODULES.iter().chain(OLD_IDENTIFIERS).find(|(old, _)| *old == name);
    entry.map(|(_, new)| *new)
}

/// The name in a line such as `pub(crate) mod name;`.
fn declared_module(line: &str) -> Option<&str> {
    let (before, rest) = line.trim().split_once("mod ")?;
    let is_declaration = before.is_empty() || (before.starts_with("pub") && before.ends_with(' '));
    is_declaration.then(|| rest.trim_end_matches([';', '{', ' ']))
}

/// Comments of Rust sources, and all lines of Markdown.
fn pronouns_in(file: &File) -> usize {
    let count = |text: &str| {
        let text = text.to_lowercase();
        PRONOUNS.iter().map(|pronoun| count_word(&text, pronoun)).sum::<usize>()
    };
    if file.path.ends_with(".rs") {
        file.text.lines().filter_map(comment_of).map(count).sum()
    } else if file.path.ends_with(".md") {
        count(&file.text)
    } else {
        0
    }
}

/// Lines without their comments and without what is in quotes.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, String)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, code_of(line)))
}

fn code_of(line: &str) -> String {
    let line = &line[..comment_start(line).unwrap_or(line.len())];
    line.split('"').step_by(2).collect::<Vec<_>>().join("\"\"")
}

fn comment_of(line: &str) -> Option<&str> {
    comment_start(line).map(|start| &line[start..])
}

/// Where `//` begins a comment: not inside of quotes, where it may belong to a URL.
fn comment_start(line: &str) -> Option<usize> {
    let starts = line.match_indices("//").map(|(start, _)| start);
    starts.into_iter().find(|start| line[..*start].matches('"').count().is_multiple_of(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::problems_in;

    #[test]
    fn an_old_identifier_is_found_in_code_and_not_in_comments_or_strings() {
        let text = "//! About a Duty.\nfn keep_company(ask: Ask) {}\nlet set_aboutness = 1; // set_about\n\
                    let text = \"the nursery\";\n";

        let problems = problems_in(no_old_name_is_left, &[("crates/a/src/lib.rs", text)]);

        assert_eq!(
            problems,
            [
                "crates/a/src/lib.rs:2: `Ask` is an old name: use Request",
                "crates/a/src/lib.rs:2: `keep_company` is an old name: use heartbeat_loop",
            ]
        );
    }

    #[test]
    fn an_old_name_of_a_file_or_module_is_found_and_a_local_of_that_name_is_not() {
        let files = [
            ("crates/a/src/look.rs", "//! Looks.\n"),
            ("crates/a/tests/ground/start.rs", "//! Starts.\n"),
            ("crates/a/src/lib.rs", "pub(crate) mod words;\nlet known = look(mark);\n"),
        ];

        let problems = problems_in(no_old_name_is_left, &files);

        assert_eq!(
            problems,
            [
                "crates/a/src/look.rs: `look` is an old name: use observe",
                "crates/a/tests/ground/start.rs: `ground` is an old name: use fixture",
                "crates/a/src/lib.rs:1: `words` is an old name: use conversion",
            ]
        );
    }

    #[test]
    fn too_many_indefinite_pronouns_are_found_in_comments_and_documents() {
        let comments = format!("// {}\n", PRONOUNS[0]).repeat(MOST_PRONOUNS);
        let strings = format!("let text = \"{}\";\n", PRONOUNS[1]).repeat(2 * MOST_PRONOUNS);
        let files = [("crates/a/src/lib.rs", comments.as_str()), ("crates/a/src/b.rs", strings.as_str())];

        assert_eq!(problems_in(comments_and_documents_name_who_acts, &files), [] as [&str; 0]);

        let document = format!("{} came, and {} saw it.\n", PRONOUNS[1].to_uppercase(), PRONOUNS[2]);
        let with_document = [files[0], files[1], ("docs/api.md", document.as_str())];
        let problems = problems_in(comments_and_documents_name_who_acts, &with_document);

        assert_eq!(problems.len(), 2);
        assert!(problems[0].starts_with("crates/a/src/lib.rs: 60 of 62 indefinite pronouns"), "{problems:?}");
        assert!(problems[1].starts_with("docs/api.md: 2 of 62 indefinite pronouns"), "{problems:?}");
    }

    #[test]
    fn an_indefinite_pronoun_in_a_document_is_found() {
        let document = format!("One.\n{} came.\n", PRONOUNS[1].to_uppercase());
        let files = [("docs/api.md", document.as_str()), ("crates/a/notes.md", document.as_str())];

        let problems = problems_in(documents_have_no_indefinite_pronouns, &files);

        assert_eq!(problems, [format!("docs/api.md:2: `{}`: name who acts", PRONOUNS[1])]);
    }

    #[test]
    fn a_comment_begins_after_the_code_and_not_inside_of_a_url() {
        assert_eq!(comment_of("let a = 1; // one"), Some("// one"));
        assert_eq!(comment_of("let url = \"http://host\"; // where"), Some("// where"));
        assert_eq!(comment_of("let url = \"http://host\";"), None);
        assert_eq!(code_of("let url = \"http://nursery\"; // nursery"), "let url = \"\"; ");
    }
}
