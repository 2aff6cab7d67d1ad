//! Our crates depend on each other only as the table in ARCHITECTURE.md says.
//! The table is for readers first; checking it keeps it true.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::Value;

use super::Problem;
use super::repository::Repository;
use crate::cargo;

const DOCUMENT: &str = "ARCHITECTURE.md";
const BEGIN: &str = "<!-- arrows:begin -->";
const END: &str = "<!-- arrows:end -->";

/// Each crate of ours and the crates of ours that it depends on.
type Arrows = BTreeMap<String, BTreeSet<String>>;

pub(super) fn crates_depend_on_each_other_as_drawn(repository: &Repository) -> Result<Vec<Problem>> {
    let metadata = cargo::output(&["metadata", "--no-deps", "--format-version", "1", "--offline"])?;
    let real = arrows_from_metadata(&metadata)?;
    let document = repository.file(DOCUMENT).map_or("", |file| &file.text);
    Ok(disagreements(&real, document))
}

fn disagreements(real: &Arrows, document: &str) -> Vec<Problem> {
    let Some(drawn) = arrows_from_document(document) else {
        let text = format!("has no table between `{BEGIN}` and `{END}`");
        return vec![Problem::in_file(DOCUMENT, text)];
    };
    let mut problems = Vec::new();
    for (from, targets) in real {
        let Some(allowed) = drawn.get(from) else {
            problems.push(Problem::in_file(DOCUMENT, format!("the table has no line for `{from}`")));
            continue;
        };
        for to in targets.difference(allowed) {
            problems.push(Problem::in_file(DOCUMENT, format!("the table does not allow `{from} -> {to}`")));
        }
    }
    problems
}

/// Lines such as `engine -> lifecycle, store`; a crate that depends on none of ours points to `nothing`.
fn arrows_from_document(document: &str) -> Option<Arrows> {
    let (_, rest) = document.split_once(BEGIN)?;
    let (table, _) = rest.split_once(END)?;
    let lines = table.lines().filter_map(|line| line.split_once("->"));
    let arrows = lines.map(|(from, targets)| {
        let targets = targets.split(',').map(str::trim).filter(|target| *target != "nothing");
        (from.trim().to_owned(), targets.map(str::to_owned).collect())
    });
    Some(arrows.collect())
}

/// Development dependencies are left out: tests may look at anything.
fn arrows_from_metadata(metadata: &str) -> Result<Arrows> {
    let metadata: Value = serde_json::from_str(metadata).context("could not read cargo's metadata")?;
    let packages = metadata["packages"].as_array().context("cargo's metadata has no packages")?;
    let mut arrows = Arrows::new();
    for package in packages {
        let dependencies = package["dependencies"].as_array().context("a package has no dependencies")?;
        let ours = dependencies
            .iter()
            .filter(|dependency| dependency["path"].is_string() && dependency["kind"].is_null())
            .map(name_of)
            .collect::<Result<_>>()?;
        arrows.insert(name_of(package)?, ours);
    }
    Ok(arrows)
}

fn name_of(package: &Value) -> Result<String> {
    let name = package["name"].as_str().context("a package has no name")?;
    Ok(name.strip_prefix("pinfold-").unwrap_or(name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = r#"{ "packages": [
        { "name": "pinfold-lifecycle", "dependencies": [{ "name": "serde", "kind": null }] },
        { "name": "pinfold-store", "dependencies": [
            { "name": "pinfold-lifecycle", "kind": null, "path": "/somewhere" },
            { "name": "pinfold-engine", "kind": "dev", "path": "/somewhere" },
            { "name": "pinfold-provider", "kind": null, "path": "/somewhere" }] },
        { "name": "xtask", "dependencies": [] }
    ] }"#;

    fn document(table: &str) -> String {
        format!("Words.\n{BEGIN}\n```\n{table}\n```\n{END}\nMore words: a -> b\n")
    }

    fn problems(table: &str) -> Vec<String> {
        let real = arrows_from_metadata(METADATA).unwrap();
        disagreements(&real, &document(table)).iter().map(Problem::to_string).collect()
    }

    #[test]
    fn arrows_that_are_drawn_are_allowed_also_before_they_are_used() {
        let table = "lifecycle -> nothing\nstore -> lifecycle, provider\nengine -> store\nxtask -> nothing";

        assert_eq!(problems(table), [] as [&str; 0]);
    }

    #[test]
    fn an_arrow_that_is_not_drawn_is_found() {
        let table = "lifecycle -> nothing\nstore -> lifecycle\nxtask -> nothing";

        assert_eq!(problems(table), ["ARCHITECTURE.md: the table does not allow `store -> provider`"]);
    }

    #[test]
    fn a_crate_that_is_not_drawn_is_found() {
        let table = "lifecycle -> nothing\nstore -> lifecycle, provider";

        assert_eq!(problems(table), ["ARCHITECTURE.md: the table has no line for `xtask`"]);
    }

    #[test]
    fn a_document_without_the_table_is_found() {
        let real = arrows_from_metadata(METADATA).unwrap();

        assert_eq!(disagreements(&real, "a -> b").len(), 1);
    }
}
