//! The table of what a test run consists of. A new stage is a new entry. Jobs of one lane start in this order.

use anyhow::Result;

use super::queue::Lane;
use super::tally::Tally;
use super::{api, power, prometheus, release, v2};
use crate::builds::{ATTACKS, Build, PRODUCT, RELEASE, TESTS};
use crate::{attacks, chaos, lint, tidy};

pub(super) struct Stage {
    pub(super) name: &'static str,
    pub(super) when: When,
    /// What it needs built. A stage never builds anything that another one runs.
    pub(super) build: Option<&'static Build>,
    pub(super) lane: Lane,
    pub(super) what: What,
}

pub(super) enum When {
    Always,
    OnlyAll,
    /// With `OnlyAll`, and where cargo has this subcommand: the stage repeats what another one checks without it.
    OnlyAllWhereInstalled(&'static str),
}

#[derive(Clone, Copy)]
pub(super) enum What {
    /// The test programs of its build, whose tests are counted one by one.
    TestPrograms,
    /// The server's test program over the fake provider.
    ServerTestsOnFake,
    /// Cargo with these arguments, whose tests are counted in the same way.
    CountedCargo(&'static [&'static str]),
    /// Cargo with these arguments, as one test.
    Cargo(&'static [&'static str]),
    /// A function of this program, as one test.
    Check(fn() -> Result<bool>),
    /// A function of this program that counts by itself.
    Counted(fn() -> Result<Tally>),
}

/// The order of builds. The product comes before the tests, whose build replaces its programs in cargo's directory
/// and must not be followed by one that does so while tests run them.
pub(super) const BUILDS: &[&Build] = &[&PRODUCT, &TESTS, &RELEASE, &ATTACKS];

const DOC_TESTS: &[&str] = &["test", "--doc", "--workspace", "--locked", "--no-fail-fast", "--"];

/// The rules are those that `tidy` checks as well. Advisories change without us, so they are for a person to check.
const DENY: &[&str] = &["deny", "--offline", "check", "licenses", "bans", "sources"];

const fn stage(
    name: &'static str,
    when: When,
    build: Option<&'static Build>,
    lane: Lane,
    what: What,
) -> Stage {
    Stage { name, when, build, lane, what }
}

pub(super) const TESTS_STAGE: &str = "tests";

#[rustfmt::skip]
pub(super) const STAGES: &[Stage] = &[
    stage("formatting", When::OnlyAll, None, Lane::Compute, What::Cargo(lint::FORMATTING)),
    stage("tidy", When::Always, None, Lane::Compute, What::Check(tidy::run)),
    stage("chaos under load", When::Always, Some(&PRODUCT), Lane::Wait, What::Check(chaos::every_fault_twice)),
    stage("API against its description", When::OnlyAll, Some(&PRODUCT), Lane::Wait, What::Check(api::run)),
    stage("chaos", When::Always, Some(&PRODUCT), Lane::Wait, What::Check(chaos::hundred_makers)),
    stage("chaos at every point of a stop", When::OnlyAll, Some(&PRODUCT), Lane::Wait, What::Check(chaos::every_point_of_a_stop)),
    stage("Prometheus", When::OnlyAll, Some(&PRODUCT), Lane::Wait, What::Check(prometheus::run)),
    stage(TESTS_STAGE, When::Always, Some(&TESTS), Lane::Wait, What::TestPrograms),
    stage("server tests over the fake provider", When::Always, Some(&TESTS), Lane::Wait, What::ServerTestsOnFake),
    stage("attacks", When::Always, Some(&ATTACKS), Lane::Wait, What::TestPrograms),
    stage("power cuts", When::OnlyAll, Some(&PRODUCT), Lane::Compute, What::Counted(power::some_rounds)),
    stage("cgroup v2", When::OnlyAll, Some(&RELEASE), Lane::Compute, What::Counted(v2::run)),
    stage("model checker", When::Always, Some(&RELEASE), Lane::Compute, What::Check(release::model_checker)),
    stage("simulator", When::Always, Some(&RELEASE), Lane::Compute, What::Check(release::simulator)),
    stage("tests in documentation", When::Always, Some(&TESTS), Lane::Build, What::CountedCargo(DOC_TESTS)),
    stage("clippy", When::OnlyAll, None, Lane::Build, What::Cargo(lint::CLIPPY)),
    stage("clippy of the feature s3", When::OnlyAll, None, Lane::Build, What::Cargo(lint::CLIPPY_S3)),
    stage("documentation", When::OnlyAll, None, Lane::Build, What::Cargo(lint::DOCUMENTATION)),
    stage("cargo deny", When::OnlyAllWhereInstalled("deny"), None, Lane::Compute, What::Cargo(DENY)),
    stage("clippy of the attacks", When::OnlyAll, None, Lane::Build, What::Cargo(attacks::CLIPPY)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_build_that_a_stage_needs_is_made() {
        for build in STAGES.iter().filter_map(|stage| stage.build) {
            assert!(BUILDS.iter().any(|made| made.name == build.name), "{}", build.name);
        }
    }

    #[test]
    fn no_two_stages_share_a_name() {
        for (index, stage) in STAGES.iter().enumerate() {
            assert!(STAGES[..index].iter().all(|other| other.name != stage.name), "{}", stage.name);
        }
    }
}
