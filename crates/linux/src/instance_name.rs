//! The name of every directory and cgroup of an instance: version, sandbox and generation, readable after any crash.

use pinfold_lifecycle::{Generation, SandboxId};
use pinfold_provider::InstanceId;

/// Format version of names.
const VERSION: &str = "v1";

pub(crate) fn encode(instance: InstanceId) -> String {
    format!("{}{}", prefix(instance.sandbox), instance.generation.0)
}

/// Prefix of the names of all generations of a sandbox, and of no others.
pub(crate) fn prefix(sandbox: SandboxId) -> String {
    format!("{VERSION}.{sandbox}.")
}

/// `None`: not a name written by [`encode`].
pub(crate) fn decode(name: &str) -> Option<InstanceId> {
    let (version, rest) = name.split_once('.')?;
    let (sandbox, generation) = rest.split_once('.')?;
    if version != VERSION {
        return None;
    }
    let generation: u64 = generation.parse().ok()?;
    let instance = InstanceId { sandbox: sandbox.parse().ok()?, generation: Generation(generation) };
    // Each instance has exactly one name: no leading zeros, no plus sign.
    (encode(instance) == name).then_some(instance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_decodes_to_the_instance_it_was_encoded_from() {
        let instance = InstanceId { sandbox: SandboxId(77), generation: Generation(3) };

        assert_eq!(decode(&encode(instance)), Some(instance));
    }

    #[test]
    fn other_names_do_not_decode() {
        let name = encode(InstanceId { sandbox: SandboxId(1), generation: Generation(1) });

        for other in [name.replace("v1", "v9"), format!("{name}0x"), name.replace(".1", ".01"), "tmp".into()]
        {
            assert_eq!(decode(&other), None, "{other}");
        }
    }
}
