//! The programs to test on the machine.

use std::path::PathBuf;

use anyhow::Result;

use crate::builds::{RELEASE, kept_program, program};

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

/// The release build has only the tests that depend on cgroups.
pub(super) fn find() -> Result<Programs> {
    let programs = RELEASE.programs()?;
    Ok(Programs {
        spawner: program(&programs, "pinfold-spawner")?,
        pinfold: kept_program("pinfold"),
        tests: programs
            .into_iter()
            .filter(|it| it.kind == "test")
            .map(|it| Test { name: it.name, program: it.path })
            .collect(),
    })
}
