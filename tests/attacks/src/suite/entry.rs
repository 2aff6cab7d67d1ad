//! One entry of the attack table.

use futures_util::future::LocalBoxFuture;
use pinfold_confine::CapabilitySet;
use pinfold_keeper_wire::DisabledGuard;

use crate::fixture::Fixture;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Group {
    Escape,
    Network,
    Files,
    Exhaustion,
    Stopping,
    Secrets,
}

pub(crate) struct Entry {
    /// What it attempts.
    pub(crate) name: &'static str,
    pub(crate) group: Group,
    /// The CVE that it is taken from, if any.
    pub(crate) cve: &'static str,
    /// The guard that has to hold.
    pub(crate) aims_at: &'static str,
    pub(crate) act: Act,
    pub(crate) proof: Proof,
    pub(crate) cpu_millis: Option<u32>,
}

#[derive(Clone, Copy)]
pub(crate) enum Act {
    /// The hostile program with these arguments; words in braces are filled in by the fixture.
    Hostile(&'static [&'static str]),
    /// A scenario of several steps, or one that is checked from the host.
    Scenario(Scenario),
}

pub(crate) type Scenario = for<'a> fn(&'a Fixture) -> LocalBoxFuture<'a, Result<Verdict, String>>;

/// How the suite shows that the attempt is real. The targets are always harmless.
#[derive(Clone, Copy)]
pub(crate) enum Proof {
    /// It succeeds with these guards disabled.
    Without(fn(&Fixture) -> Vec<DisabledGuard>),
    /// It succeeds against another, harmless target.
    WithoutAt(fn(&Fixture) -> Vec<DisabledGuard>, &'static [&'static str]),
    /// The technique works on the sandbox's own resources.
    OnItself(&'static [&'static str]),
    /// It succeeds without limits.
    Unlimited,
    /// It succeeds against a naive implementation.
    Naive(fn() -> Result<Verdict, String>),
    /// There is no proof, for this reason.
    Nowhere(&'static str),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Through(String),
    Held(String),
}

impl Verdict {
    pub(crate) fn through_if(through: bool, what: impl Into<String>) -> Self {
        let what = what.into();
        if through { Self::Through(what) } else { Self::Held(what) }
    }
}

impl Entry {
    pub(crate) const fn new(
        group: Group,
        name: &'static str,
        aims_at: &'static str,
        act: Act,
        proof: Proof,
    ) -> Self {
        Self { name, group, cve: "", aims_at, act, proof, cpu_millis: None }
    }

    pub(crate) const fn cve(mut self, cve: &'static str) -> Self {
        self.cve = cve;
        self
    }

    pub(crate) const fn with_cpu(mut self, millis: u32) -> Self {
        self.cpu_millis = Some(millis);
        self
    }
}

/// The proof by disabled guards.
macro_rules! without {
    ($($weakness:expr),* $(,)?) => { $crate::entry::Proof::Without(|_| vec![$($weakness),*]) };
}

pub(crate) use without;

pub(crate) fn syscall_group(group: pinfold_confine::SyscallGroup) -> DisabledGuard {
    DisabledGuard::SyscallGroupAllowed(group)
}

pub(crate) fn capability(capability: CapabilitySet) -> DisabledGuard {
    DisabledGuard::Capability(capability.bits())
}

/// The capabilities that the keeper has beyond code inside: the kernel denies access to a process with more.
pub(crate) fn keepers_rights() -> DisabledGuard {
    capability(CapabilitySet::SYS_ADMIN | CapabilitySet::SYS_PTRACE)
}

/// The disabled guards as text, without the paths of this run.
pub(crate) fn describe_guards(disabled_guards: &[DisabledGuard]) -> String {
    let words = disabled_guards.iter().map(|weakness| match weakness {
        DisabledGuard::SyscallGroupAllowed(group) => format!("system calls {group:?} allowed"),
        DisabledGuard::Capability(bits) => {
            let names = CapabilitySet::from_bits_retain(*bits);
            names.iter_names().map(|(name, _)| format!("{} kept", name.to_lowercase())).collect()
        }
        other => sentence(&format!("{other:?}")),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// `LeakedDirectory("/x")` as `leaked directory`.
fn sentence(name: &str) -> String {
    let name = name.split('(').next().unwrap_or_default();
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words
}
