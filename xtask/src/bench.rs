//! Runs benchmarks by name. Each is its own program that prints a table.

use anyhow::Result;

use crate::cargo;

/// A benchmark's name, its package, and the arguments of its program.
type Bench = (&'static str, &'static str, &'static [&'static str]);

const BENCHES: &[Bench] = &[
    ("store", "pinfold-bench-store", &[]),
    ("start", SANDBOX, &["start"]),
    ("exec", SANDBOX, &["exec"]),
    ("stop", SANDBOX, &["stop"]),
    ("density", SANDBOX, &["density"]),
    ("neighbour", SANDBOX, &["neighbour"]),
    ("api", SANDBOX, &["api"]),
    ("stop-across", SANDBOX, &["stop-across"]),
    ("monitoring", SANDBOX, &["monitoring"]),
    ("cleanup", "pinfold-cleanup-e2e", &["bench"]),
];

/// This benchmark also runs the `pinfold` program, which it finds beside itself.
const SANDBOX: &str = "pinfold-bench-sandbox";
const BUILD_PROGRAM: &[&str] = &["build", "--release", "--locked", "--quiet", "--package", "pinfold-cli"];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Which benchmark; without a name the known ones are listed
    name: Option<String>,
    /// Arguments of the benchmark
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Result<bool> {
    let Some((_, package, told)) = options.name.as_deref().and_then(|name| find(name, BENCHES)) else {
        println!("{}", list(options.name.as_deref(), BENCHES));
        return Ok(options.name.is_none());
    };
    if *package == SANDBOX && !cargo::succeeds(BUILD_PROGRAM)? {
        return Ok(false);
    }
    let mut arguments = vec!["run", "--release", "--locked", "--quiet", "--package", package, "--"];
    arguments.extend_from_slice(told);
    arguments.extend(options.arguments.iter().map(String::as_str));
    cargo::succeeds(&arguments)
}

pub(crate) fn is_known(name: &str) -> bool {
    find(name, BENCHES).is_some()
}

fn find<'a>(name: &str, benches: &'a [Bench]) -> Option<&'a Bench> {
    benches.iter().find(|(known, _, _)| *known == name)
}

fn list(asked: Option<&str>, benches: &[Bench]) -> String {
    let names: Vec<&str> = benches.iter().map(|(name, _, _)| *name).collect();
    let known = if names.is_empty() { "none yet".to_owned() } else { names.join(", ") };
    match asked {
        Some(name) => format!("there is no benchmark `{name}`; known: {known}"),
        None => format!("known benchmarks: {known}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &[Bench] = &[("store", "one", &[]), ("start", "two", &["start"])];

    #[test]
    fn a_benchmark_is_found_by_its_whole_name() {
        assert_eq!(find("store", TWO).unwrap().0, "store");
        assert!(find("sto", TWO).is_none());
    }

    #[test]
    fn an_unknown_benchmark_lists_the_known_ones() {
        assert_eq!(list(Some("sotre"), TWO), "there is no benchmark `sotre`; known: store, start");
        assert_eq!(list(None, TWO), "known benchmarks: store, start");
        assert_eq!(list(None, &[]), "known benchmarks: none yet");
    }
}
