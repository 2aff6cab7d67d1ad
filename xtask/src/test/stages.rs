//! The table of what a test run consists of, in order. A new stage is a new entry.

use anyhow::Result;

use super::tally::Tally;
use super::{api, power, prometheus, v2};
use crate::{attacks, chaos, lint, tidy};

pub(super) struct Stage {
    pub(super) name: &'static str,
    pub(super) when: When,
    pub(super) what: What,
}

pub(super) enum When {
    Always,
    OnlyAll,
}

pub(super) enum What {
    /// `cargo test`, whose tests are counted one by one.
    Harness,
    /// Cargo with these arguments, whose tests are counted in the same way.
    CountedCargo(&'static [&'static str]),
    /// Cargo with these arguments, as one test.
    Cargo(&'static [&'static str]),
    /// A function of this program, as one test.
    Check(fn() -> Result<bool>),
    /// A function of this program that counts by itself.
    Counted(fn() -> Result<Tally>),
}

pub(super) const STAGES: &[Stage] = &[
    Stage { name: "formatting", when: When::OnlyAll, what: What::Cargo(lint::FORMATTING) },
    Stage { name: "clippy", when: When::OnlyAll, what: What::Cargo(lint::CLIPPY) },
    Stage { name: "tidy", when: When::Always, what: What::Check(tidy::run) },
    Stage { name: "tests", when: When::Always, what: What::Harness },
    Stage { name: "clippy of the attacks", when: When::OnlyAll, what: What::Cargo(attacks::CLIPPY) },
    Stage { name: "attacks", when: When::Always, what: What::CountedCargo(attacks::ATTACKS) },
    Stage { name: "cgroup v2", when: When::OnlyAll, what: What::Counted(v2::run) },
    Stage { name: "power cuts", when: When::OnlyAll, what: What::Counted(power::some_rounds) },
    Stage { name: "API against its description", when: When::OnlyAll, what: What::Check(api::run) },
    Stage { name: "Prometheus", when: When::OnlyAll, what: What::Check(prometheus::run) },
    Stage {
        name: "model checker",
        when: When::Always,
        what: What::Cargo(&["run", "--release", "--locked", "--package", "pinfold-model-check"]),
    },
    Stage {
        name: "simulator",
        when: When::Always,
        what: What::Cargo(&[
            "run",
            "--release",
            "--locked",
            "--package",
            "pinfold-simulator",
            "--",
            "--seeds",
            "2000",
        ]),
    },
    Stage { name: "chaos", when: When::Always, what: What::Check(chaos::hundred_makers) },
    Stage { name: "chaos under load", when: When::Always, what: What::Check(chaos::every_fault_twice) },
    Stage {
        name: "chaos at every point of a stop",
        when: When::OnlyAll,
        what: What::Check(chaos::every_point_of_a_stop),
    },
];
