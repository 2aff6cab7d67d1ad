//! What this machine can enforce, by what means, and how to get the rest: in words for its owner.

mod kernel;
mod machine;

use std::path::Path;

use crate::cgroup::{Ability, Cgroups};

/// One thing that sandboxes rely on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    pub ability: &'static str,
    pub standing: Standing,
    /// By what it holds, or why it does not.
    pub means: String,
    /// What to do to get it.
    pub advice: Option<String>,
    /// Without it no sandbox can run.
    pub is_needed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It holds whatever code inside does.
    Enforced,
    /// It is noticed and acted on, a moment late.
    Watched,
    Missing,
}

impl Diagnosis {
    fn enforced(ability: &'static str, means: impl Into<String>) -> Self {
        Self { ability, standing: Standing::Enforced, means: means.into(), advice: None, is_needed: false }
    }

    fn watched(ability: &'static str, means: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { standing: Standing::Watched, ..Self::missing(ability, means, advice) }
    }

    fn missing(ability: &'static str, means: impl Into<String>, advice: impl Into<String>) -> Self {
        let (means, advice) = (means.into(), Some(advice.into()));
        Self { ability, standing: Standing::Missing, means, advice, is_needed: false }
    }

    fn needed(self) -> Self {
        Self { is_needed: true, ..self }
    }

    /// Whether sandboxes can run in spite of it.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        self.is_needed && self.standing == Standing::Missing
    }
}

/// Looks at everything that matters, and changes nothing.
#[must_use]
pub fn diagnose(data: &Path) -> Vec<Diagnosis> {
    let mut found = kernel::diagnose();
    found.extend(groups());
    found.extend(machine::diagnose(data));
    found
}

/// What is enforced by groups, and what remains of it without them.
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
    let rootless = "the keeper ends its process namespace, and everything inside with it";
    let nothing = "nothing";
    [
        ("end all processes", abilities.kill, Standing::Enforced, rootless),
        ("freeze", abilities.freeze, Standing::Missing, nothing),
        ("memory limit", abilities.memory, Standing::Missing, nothing),
        ("process limit", abilities.pids, Standing::Missing, nothing),
        ("CPU share", abilities.cpu, Standing::Missing, nothing),
        ("CPU time", abilities.cpu_time, Standing::Watched, "the keeper counts what its children have used"),
        ("count of bytes read and written", abilities.io, Standing::Missing, nothing),
    ]
    .into_iter()
    .map(|(ability, by_groups, without, instead)| match by_groups {
        Ability::Enforced { by } => Diagnosis::enforced(ability, by),
        Ability::Unavailable { why, fix } => {
            let means = format!("{why}; instead: {instead}");
            Diagnosis { standing: without, ..Diagnosis::missing(ability, means, fix) }
        }
    })
    .collect()
}
