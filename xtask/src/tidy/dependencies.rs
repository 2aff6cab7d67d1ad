//! Every third-party crate that ours name in a manifest has its reason in `docs/dependencies.md`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::Value;

use super::Problem;
use super::repository::Repository;
use crate::cargo;

const DOCUMENT: &str = "docs/dependencies.md";

pub(super) fn every_dependency_has_a_reason(repository: &Repository) -> Result<Vec<Problem>> {
    let metadata = cargo::output(&["metadata", "--no-deps", "--format-version", "1", "--offline"])?;
    let used = third_party(&metadata)?;
    let document = repository.file(DOCUMENT).map_or("", |file| &file.text);
    Ok(without_reason(&used, document))
}

fn without_reason(used: &BTreeMap<String, String>, document: &str) -> Vec<Problem> {
    let known = named_in_first_column(document);
    let missing = used.iter().filter(|(name, _)| !known.contains(name.as_str()));
    missing
        .map(|(name, by)| Problem::in_file(DOCUMENT, format!("has no row for `{name}`, used by `{by}`")))
        .collect()
}

/// The names in the first column of the table: words of letters, digits, `-` and `_`.
fn named_in_first_column(document: &str) -> BTreeSet<&str> {
    let rows = document.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    rows.flat_map(|cell| cell.split(|c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c)))).collect()
}

/// Each third-party crate, development and build dependencies included, and one of our crates that uses it.
fn third_party(metadata: &str) -> Result<BTreeMap<String, String>> {
    let metadata: Value = serde_json::from_str(metadata).context("could not read cargo's metadata")?;
    let packages = metadata["packages"].as_array().context("cargo's metadata has no packages")?;
    let mut used = BTreeMap::new();
    for package in packages {
        let by = package["name"].as_str().context("a package has no name")?;
        let dependencies = package["dependencies"].as_array().context("a package has no dependencies")?;
        for dependency in dependencies.iter().filter(|dependency| !dependency["path"].is_string()) {
            let name = dependency["name"].as_str().context("a dependency has no name")?;
            used.insert(name.to_owned(), by.to_owned());
        }
    }
    Ok(used)
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = r#"{ "packages": [
        { "name": "pinfold-store", "dependencies": [
            { "name": "pinfold-lifecycle", "kind": null, "path": "/somewhere" },
            { "name": "serde", "kind": null },
            { "name": "tempfile", "kind": "dev" }] }
    ] }"#;

    #[test]
    fn a_dependency_without_a_row_is_found() {
        let used = third_party(METADATA).unwrap();
        let document =
            "tempfile in the text.\n| crate | why |\n|---|---|\n| serde, serde_json | rows, tempfile |\n";

        let problems = without_reason(&used, document);

        let shown: Vec<String> = problems.iter().map(Problem::to_string).collect();
        assert_eq!(shown, ["docs/dependencies.md: has no row for `tempfile`, used by `pinfold-store`"]);
    }

    #[test]
    fn a_row_may_name_several_crates() {
        let used = third_party(METADATA).unwrap();
        let document = "| serde, with tempfile | rows |\n";

        assert_eq!(without_reason(&used, document), []);
    }
}
