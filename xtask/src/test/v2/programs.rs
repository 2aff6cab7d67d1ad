//! Builds the programs to test on the machine.

use std::path::PathBuf;

use anyhow::Result;

use crate::test::machine::{built, program};

/// Tests look for programs at their build paths, so the machine has them there.
pub(super) struct Programs {
    pub(super) tests: Vec<Test>,
    pub(super) spawner: PathBuf,
    pub(super) pinfold: PathBuf,
}

pub(super) struct Test {
    pub(super) name: String,
    pub(super) program: PathBuf,
}

/// Tests that depend on cgroups. An emulator is slow, and the others do not use cgroups.
const OF_GROUPS: [&str; 4] = ["cgroup", "conformance", "executions", "limits"];

pub(super) fn build() -> Result<Programs> {
    // Optimized, since an emulator is slow and keepers have to answer in time.
    let linux = built(&["test", "--no-run", "--release", "--package", "pinfold-linux"])?;
    let cli = built(&["build", "--package", "pinfold-cli"])?;
    Ok(Programs {
        spawner: program(&linux, "pinfold-spawner")?,
        pinfold: program(&cli, "pinfold")?,
        tests: linux
            .into_iter()
            .filter(|it| it.kind == "test" && OF_GROUPS.contains(&it.name.as_str()))
            .map(|it| Test { name: it.name, program: it.program })
            .collect(),
    })
}
