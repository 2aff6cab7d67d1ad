//! The service and its HTTP front see stores and providers as traits: what they are built of names no implementation.

use anyhow::Result;

use super::Problem;
use super::repository::Repository;
use crate::cargo;

const PACKAGES: &[&str] = &["pinfold-service", "pinfold-http"];

/// Implementations that only the composition (`crates/host`), the program and tests choose.
const IMPLEMENTATIONS: &[&str] = &["pinfold-linux", "pinfold-keeper", "pinfold-store-sqlite", "rusqlite"];

pub(super) fn the_service_names_no_implementation(_: &Repository) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for package in PACKAGES {
        let tree = cargo::output(&["tree", "-p", package, "-e", "normal", "--prefix", "none", "--offline"])?;
        problems.extend(implementations_in(&tree).map(|name| {
            Problem::in_file(
                "Cargo.toml",
                format!("`{package}` depends on `{name}`, which is behind a trait"),
            )
        }));
    }
    Ok(problems)
}

/// Lines begin with the name of a package; `(*)` marks repeated ones.
fn implementations_in(tree: &str) -> impl Iterator<Item = &'static str> {
    let is_named = |name: &str| tree.lines().any(|line| line.split(' ').next() == Some(name));
    IMPLEMENTATIONS.iter().copied().filter(move |name| is_named(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_implementation_is_found_at_any_depth_and_reported_once() {
        let tree = "pinfold-service v0.1.0 (/home)\npinfold-store v0.1.0\npinfold-store-sqlite v0.1.0\n\
                    rusqlite v0.41.0\nrusqlite v0.41.0 (*)\n";

        assert_eq!(implementations_in(tree).collect::<Vec<_>>(), ["pinfold-store-sqlite", "rusqlite"]);
    }

    #[test]
    fn a_package_whose_name_only_begins_alike_is_none() {
        let tree = "pinfold-service v0.1.0\nrusqlite-helpers v1.0.0\npinfold-store v0.1.0\n";

        assert_eq!(implementations_in(tree).count(), 0);
    }
}
