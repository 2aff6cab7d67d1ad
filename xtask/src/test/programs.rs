//! The test programs of a build as jobs: the longest first, so that none is left over at the end.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::job::{Count, Job};
use super::queue::Lane;
use crate::builds::{Build, Program};
use crate::cargo;

/// A test program that takes long, by package and target, and the lane it is in.
struct Known {
    program: &'static str,
    seconds: u32,
    lane: Lane,
}

const SERVER: &str = "crates/http server";

const KNOWN: &[Known] = &[
    Known { program: "crates/cli commands", seconds: 155, lane: Lane::Wait },
    Known { program: "crates/logs logs", seconds: 131, lane: Lane::Wait },
    Known { program: SERVER, seconds: 123, lane: Lane::Wait },
    Known { program: "crates/engine multi_process", seconds: 61, lane: Lane::Wait },
    Known { program: "crates/store-sqlite crash", seconds: 40, lane: Lane::Wait },
    Known { program: "crates/simulator seeds", seconds: 21, lane: Lane::Compute },
    Known { program: "crates/images images", seconds: 17, lane: Lane::Wait },
    Known { program: "tests/chaos guards", seconds: 16, lane: Lane::Wait },
    Known { program: "crates/engine behaviour", seconds: 16, lane: Lane::Wait },
    Known { program: "crates/linux limits", seconds: 9, lane: Lane::Wait },
    Known { program: "tests/cleanup-e2e cleanup", seconds: 6, lane: Lane::Wait },
];

pub(super) fn jobs(stage: &'static str, build: &Build, filter: &[String]) -> Result<Vec<(Lane, Job)>> {
    let mut programs: Vec<Program> = build.programs()?.into_iter().filter(|it| it.is_harness).collect();
    programs
        .sort_by_cached_key(|program| std::cmp::Reverse(known(&name(program)).map_or(0, |it| it.seconds)));
    Ok(programs.iter().map(|program| job(stage, program, filter)).collect())
}

/// The server's tests once more, over the fake provider, without those that need Linux sandboxes.
pub(super) fn server_on_fake(
    stage: &'static str,
    build: &Build,
    filter: &[String],
) -> Result<Vec<(Lane, Job)>> {
    let programs = build.programs()?;
    let server = programs.iter().find(|program| program.is_harness && name(program) == SERVER);
    let (lane, mut job) =
        job(stage, server.with_context(|| format!("there is no test program `{SERVER}`"))?, filter);
    job.command.args(["--skip", "on_linux::"]).env("PINFOLD_TEST_PROVIDER", "fake");
    job.name = stage.to_owned();
    Ok(vec![(lane, job)])
}

fn job(stage: &'static str, program: &Program, filter: &[String]) -> (Lane, Job) {
    // As cargo would run it.
    let mut command = Command::new(&program.path);
    command
        .args(filter)
        .current_dir(&program.package)
        .env("CARGO_MANIFEST_DIR", &program.package)
        .env("RUST_BACKTRACE", "1");
    let name = name(program);
    let lane = known(&name).map_or(Lane::Wait, |it| it.lane);
    (lane, Job { stage: Some(stage), name, command, messages: None, count: Count::LastResult })
}

fn known(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.program == name)
}

/// Such as `crates/cli commands`, or `crates/cli bin pinfold` for the tests inside a program.
fn name(program: &Program) -> String {
    let root = cargo::repository_root();
    let package = program.package.strip_prefix(&root).unwrap_or(Path::new("")).display();
    match program.kind.as_str() {
        "test" => format!("{package} {}", program.name),
        kind => format!("{package} {kind} {}", program.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_test_program_exists() {
        for known in KNOWN {
            let (package, target) = known.program.split_once(' ').unwrap();
            let tests = cargo::repository_root().join(package).join("tests");
            let exists = tests.join(target).with_extension("rs").exists() || tests.join(target).is_dir();
            assert!(exists, "{}", known.program);
        }
    }
}
