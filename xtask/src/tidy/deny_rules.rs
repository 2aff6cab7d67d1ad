//! Dependencies are what `deny.toml` allows: their licences, their sources, no banned crate, and no second version of
//! a crate without a reason. cargo-deny reads the same file, but takes minutes to build; this needs nothing.

mod licence;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::Value;
use toml::Table;

use super::Problem;
use super::repository::Repository;
use crate::cargo;

const FILE: &str = "deny.toml";

pub(super) fn dependencies_are_what_is_allowed(repository: &Repository) -> Result<Vec<Problem>> {
    let rules = repository.file(FILE).map_or("", |file| &file.text);
    let target = "x86_64-unknown-linux-gnu";
    let metadata = cargo::output(&[
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--offline",
        "--all-features",
        "--filter-platform",
        target,
    ])?;
    problems(rules, &dependencies(&metadata)?)
}

/// A package that is not ours.
#[derive(Debug)]
struct Dependency {
    name: String,
    version: String,
    licence: String,
    source: String,
}

/// A crate that `deny.toml` names, such as `base64@0.22` or `openssl-sys`.
struct Named {
    name: String,
    version: Option<String>,
    has_reason: bool,
}

impl Named {
    fn is(&self, dependency: &Dependency) -> bool {
        let is_version = |version: &String| {
            dependency.version == *version || dependency.version.starts_with(&format!("{version}."))
        };
        self.name == dependency.name && self.version.as_ref().is_none_or(is_version)
    }
}

fn problems(rules: &str, dependencies: &[Dependency]) -> Result<Vec<Problem>> {
    let rules: Table = rules.parse().with_context(|| format!("could not read `{FILE}`"))?;
    let allowed: Vec<&str> =
        entries(&rules, "licenses", "allow").iter().filter_map(|it| it.as_str()).collect();
    let banned = named(&rules, "deny");
    let skipped = named(&rules, "skip");
    let registry = dependencies.iter().map(|it| &it.source).find(|source| source.starts_with("registry+"));
    let mut texts = Vec::new();
    for unexplained in banned.iter().chain(&skipped).filter(|it| !it.has_reason) {
        texts.push(format!("`{}` is listed without a reason", unexplained.name));
    }
    for dependency in dependencies {
        let Dependency { name, version, licence, source } = dependency;
        if !licence::is_allowed(licence, &allowed) {
            texts.push(format!("`{name}` {version} has the licence `{licence}`, which is not allowed"));
        }
        if Some(source) != registry {
            texts.push(format!("`{name}` {version} does not come from the one registry but from `{source}`"));
        }
        if banned.iter().any(|banned| banned.is(dependency)) {
            texts.push(format!("`{name}` is banned"));
        }
    }
    texts.extend(duplicates(dependencies, &skipped));
    Ok(texts.into_iter().map(|text| Problem::in_file(FILE, text)).collect())
}

/// Crates with several versions that are not listed, and listed ones of which there is only one.
fn duplicates(dependencies: &[Dependency], skipped: &[Named]) -> Vec<String> {
    let mut texts = Vec::new();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for dependency in dependencies {
        versions.entry(&dependency.name).or_default().insert(&dependency.version);
    }
    for skip in skipped {
        let is_needed = dependencies.iter().any(|it| skip.is(it) && versions[it.name.as_str()].len() > 1);
        if !is_needed {
            texts.push(format!("`{}` is skipped and has no second version", skip.name));
        }
    }
    let is_skipped = |it: &&Dependency| skipped.iter().any(|skip| skip.is(it));
    for (name, versions) in versions.iter().filter(|(_, versions)| versions.len() > 1) {
        let known = dependencies.iter().filter(|it| it.name == *name).filter(is_skipped).count();
        if versions.len() > known + 1 {
            let versions: Vec<&str> = versions.iter().copied().collect();
            texts.push(format!("`{name}` has the versions {}", versions.join(", ")));
        }
    }
    texts
}

fn entries<'a>(rules: &'a Table, section: &str, key: &str) -> &'a [toml::Value] {
    let list = rules.get(section).and_then(|section| section.get(key)?.as_array());
    list.map(Vec::as_slice).unwrap_or_default()
}

fn named(rules: &Table, key: &str) -> Vec<Named> {
    let read = |entry: &toml::Value| {
        let text = entry.get("crate")?.as_str()?;
        let (name, version) = text.split_once('@').map_or((text, None), |(name, it)| (name, Some(it)));
        let reason = entry.get("reason").and_then(|reason| reason.as_str()).unwrap_or_default();
        Some(Named {
            name: name.to_owned(),
            version: version.map(str::to_owned),
            has_reason: !reason.trim().is_empty(),
        })
    };
    entries(rules, "bans", key).iter().filter_map(read).collect()
}

/// All packages that are not in this repository.
fn dependencies(metadata: &str) -> Result<Vec<Dependency>> {
    let metadata: Value = serde_json::from_str(metadata).context("could not read cargo's metadata")?;
    let packages = metadata["packages"].as_array().context("cargo's metadata has no packages")?;
    let text = |package: &Value, key: &str| package[key].as_str().unwrap_or_default().to_owned();
    Ok(packages
        .iter()
        .filter(|package| !package["source"].is_null())
        .map(|package| Dependency {
            name: text(package, "name"),
            version: text(package, "version"),
            licence: text(package, "license"),
            source: text(package, "source"),
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = r#"
        [licenses]
        allow = ["MIT"]
        [bans]
        deny = [{ crate = "openssl-sys", reason = "rustls instead" }]
        skip = [{ crate = "base64@0.22", reason = "axum" }]
    "#;

    fn dependency(name: &str, version: &str) -> Dependency {
        let (name, version) = (name.to_owned(), version.to_owned());
        Dependency {
            name,
            version,
            licence: "MIT".to_owned(),
            source: "registry+https://example.org/index".to_owned(),
        }
    }

    /// Two versions of one crate, as the rules expect, and these.
    fn found(rules: &str, more: Vec<Dependency>) -> Vec<String> {
        let known = [dependency("base64", "0.22.1"), dependency("base64", "0.23.1")];
        let all: Vec<Dependency> = known.into_iter().chain(more).collect();
        problems(rules, &all).unwrap().into_iter().map(|problem| problem.text).collect()
    }

    #[test]
    fn allowed_dependencies_are_no_problem() {
        assert!(found(RULES, vec![dependency("axum", "0.8.9")]).is_empty());
    }

    #[test]
    fn a_licence_or_source_that_is_not_allowed_is_found() {
        let licence = Dependency { licence: "GPL-3.0-only".to_owned(), ..dependency("bad", "1.0.0") };
        let none = Dependency { licence: String::new(), ..dependency("bare", "1.0.0") };
        let source =
            Dependency { source: "git+https://example.org/x".to_owned(), ..dependency("forked", "1.0.0") };

        let other =
            Dependency { source: "registry+https://example.com".to_owned(), ..dependency("b", "1.0.0") };

        let found = found(RULES, vec![licence, none, source, other]);

        assert_eq!(found.len(), 4, "{found:?}");
        let expected = ["GPL-3.0-only", "bare", "git+", "example.com"];
        assert!(found.iter().zip(expected).all(|(found, expected)| found.contains(expected)), "{found:?}");
    }

    #[test]
    fn a_banned_crate_is_found() {
        assert_eq!(found(RULES, vec![dependency("openssl-sys", "0.9.1")]), ["`openssl-sys` is banned"]);
    }

    #[test]
    fn a_second_version_without_a_reason_is_found() {
        let two = vec![dependency("syn", "2.0.1"), dependency("syn", "3.0.9")];
        assert_eq!(found(RULES, two), ["`syn` has the versions 2.0.1, 3.0.9"]);

        let third = vec![dependency("base64", "0.21.0")];
        assert_eq!(found(RULES, third), ["`base64` has the versions 0.21.0, 0.22.1, 0.23.1"]);
    }

    #[test]
    fn an_exception_that_is_not_needed_or_not_explained_is_found() {
        let unneeded = RULES.replace("skip = [", r#"skip = [{ crate = "nom@7", reason = "gone" }, "#);
        let unexplained = RULES.replace(r#", reason = "axum""#, "");

        assert_eq!(found(&unneeded, Vec::new()), ["`nom` is skipped and has no second version"]);
        assert_eq!(found(&unexplained, Vec::new()), ["`base64` is listed without a reason"]);
    }
}
