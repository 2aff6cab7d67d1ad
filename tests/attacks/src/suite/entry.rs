//! What a line of the table is made of.

use futures_util::future::LocalBoxFuture;
use pinfold_keeper::confine::CapabilitySet;
use pinfold_keeper::weakness::Weakness;

use crate::stage::Stage;

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
    /// What it tries.
    pub(crate) name: &'static str,
    pub(crate) group: Group,
    /// The public vulnerability that it comes from, if it has a number.
    pub(crate) cve: &'static str,
    /// The guard that has to hold.
    pub(crate) aims_at: &'static str,
    pub(crate) act: Act,
    pub(crate) proof: Proof,
    pub(crate) cpu_millis: Option<u32>,
}

#[derive(Clone, Copy)]
pub(crate) enum Act {
    /// The hostile program inside, with these arguments; words in braces stand for what the stage knows.
    Hostile(&'static [&'static str]),
    /// More than one step, or judged from outside.
    Scene(Scene),
}

pub(crate) type Scene = for<'a> fn(&'a Stage) -> LocalBoxFuture<'a, Result<Verdict, String>>;

/// How it is shown that the attempt is real. What is named is always harmless.
#[derive(Clone, Copy)]
pub(crate) enum Proof {
    /// It gets through where these guards are out.
    Without(fn(&Stage) -> Vec<Weakness>),
    /// The same, at another target that does no harm.
    WithoutAt(fn(&Stage) -> Vec<Weakness>, &'static [&'static str]),
    /// The trick works on something of the sandbox's own.
    OnItself(&'static [&'static str]),
    /// It gets through where nothing is limited.
    Unlimited,
    /// The trap springs on a simple-minded implementation.
    Naive(fn() -> Result<Verdict, String>),
    /// There is none, and this is why.
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

/// Guards that are out, as a proof.
macro_rules! without {
    ($($weakness:expr),* $(,)?) => { $crate::entry::Proof::Without(|_| vec![$($weakness),*]) };
}

pub(crate) use without;

pub(crate) fn door(door: pinfold_keeper::confine::Door) -> Weakness {
    Weakness::OpenDoor(door)
}

pub(crate) fn capability(capability: CapabilitySet) -> Weakness {
    Weakness::Capability(capability.bits())
}

/// Weaknesses in words, without the paths of this run.
pub(crate) fn in_words(weaknesses: &[Weakness]) -> String {
    let words = weaknesses.iter().map(|weakness| match weakness {
        Weakness::OpenDoor(door) => format!("door {door:?} open"),
        Weakness::Capability(bits) => {
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
