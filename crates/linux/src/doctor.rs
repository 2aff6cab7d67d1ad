//! What this host can enforce, by what means, and how to get the rest: for its operator.

mod kernel;
mod machine;
mod shared_files;

use std::path::Path;

use crate::cgroup::{Ability, Cgroups};

/// One feature that sandboxes rely on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    pub ability: &'static str,
    pub enforcement: Enforcement,
    /// By what means, or why not.
    pub means: String,
    /// How to get it.
    pub advice: Option<String>,
    /// Without it no sandbox can run.
    pub is_required: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enforcement {
    /// Holds against any code inside.
    Enforced,
    /// Violations are detected and acted on with a delay.
    Watched,
    Missing,
}

impl Diagnosis {
    fn enforced(ability: &'static str, means: impl Into<String>) -> Self {
        Self {
            ability,
            enforcement: Enforcement::Enforced,
            means: means.into(),
            advice: None,
            is_required: false,
        }
    }

    fn watched(ability: &'static str, means: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { enforcement: Enforcement::Watched, ..Self::missing(ability, means, advice) }
    }

    fn missing(ability: &'static str, means: impl Into<String>, advice: impl Into<String>) -> Self {
        let (means, advice) = (means.into(), Some(advice.into()));
        Self { ability, enforcement: Enforcement::Missing, means, advice, is_required: false }
    }

    fn required(self) -> Self {
        Self { is_required: true, ..self }
    }

    /// Whether no sandbox can run because of it.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        self.is_required && self.enforcement == Enforcement::Missing
    }
}

/// Checks everything that matters. Changes nothing.
#[must_use]
pub fn diagnose(data: &Path) -> Vec<Diagnosis> {
    let mut found = kernel::diagnose();
    found.extend(shared_files::diagnose());
    found.extend(groups());
    found.extend(machine::diagnose(data));
    found
}

/// What cgroups enforce, and what remains without them.
fn groups() -> Vec<Diagnosis> {
    let abilities = match Cgroups::detect("pinfold.doctor") {
        Ok(cgroups) => cgroups.abilities(),
        Err(error) => {
            return vec![Diagnosis::missing(
                "cgroups",
                error.to_string(),
                "mount cgroup v2 at /sys/fs/cgroup",
            )];
        }
    };
    let rootless = "all processes are killed with the keeper, process 1 of their PID namespace";
    let nothing = "nothing";
    [
        ("end all processes", abilities.kill, Enforcement::Enforced, rootless),
        ("freeze", abilities.freeze, Enforcement::Missing, nothing),
        ("memory limit", abilities.memory, Enforcement::Missing, nothing),
        ("process limit", abilities.pids, Enforcement::Missing, nothing),
        ("CPU share", abilities.cpu, Enforcement::Missing, nothing),
        (
            "CPU time",
            abilities.cpu_time,
            Enforcement::Watched,
            "the keeper counts what its children have used",
        ),
        ("count of bytes read and written", abilities.io, Enforcement::Missing, nothing),
    ]
    .into_iter()
    .map(|(ability, by_groups, without, instead)| match by_groups {
        Ability::Enforced { by } => Diagnosis::enforced(ability, by),
        Ability::Unavailable { why, fix } => {
            let means = format!("{why}; instead: {instead}");
            Diagnosis { enforcement: without, ..Diagnosis::missing(ability, means, fix) }
        }
    })
    .collect()
}
