//! What is built to be tested on the machine.

use std::path::PathBuf;

use anyhow::Result;

use crate::test::machine::{built, program};

/// Every program is looked for by tests where it was built, so that is where the machine has it.
pub(super) struct Programs {
    pub(super) tests: Vec<Test>,
    pub(super) nursery: PathBuf,
    pub(super) pinfold: PathBuf,
}

pub(super) struct Test {
    pub(super) name: String,
    pub(super) program: PathBuf,
}

/// Those that groups matter to. An emulator is slow, and the others know nothing of groups.
const OF_GROUPS: [&str; 4] = ["cgroup", "conformance", "executions", "limits"];

pub(super) fn build() -> Result<Programs> {
    // An emulator is slow, and keepers have to answer in time.
    let linux = built(&["test", "--no-run", "--release", "--package", "pinfold-linux"])?;
    let cli = built(&["build", "--package", "pinfold-cli"])?;
    Ok(Programs {
        nursery: program(&linux, "pinfold-nursery")?,
        pinfold: program(&cli, "pinfold")?,
        tests: linux
            .into_iter()
            .filter(|it| it.kind == "test" && OF_GROUPS.contains(&it.name.as_str()))
            .map(|it| Test { name: it.name, program: it.program })
            .collect(),
    })
}
