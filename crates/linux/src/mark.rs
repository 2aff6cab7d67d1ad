//! The name that everything physical of a body carries: version, sandbox and generation, readable after any crash.

use pinfold_lifecycle::{Generation, SandboxId};
use pinfold_provider::InstanceId;

/// How marks are written by this program. Older ones stay readable.
const VERSION: &str = "v1";

pub(crate) fn write(body: InstanceId) -> String {
    format!("{}{}", beginning(body.sandbox), body.generation.0)
}

/// How the marks of all generations of a sandbox begin, and no others.
pub(crate) fn beginning(sandbox: SandboxId) -> String {
    format!("{VERSION}.{sandbox}.")
}

/// None: not a mark of ours, or one that cannot be read.
pub(crate) fn read(name: &str) -> Option<InstanceId> {
    let (version, rest) = name.split_once('.')?;
    let (sandbox, generation) = rest.split_once('.')?;
    if version != VERSION {
        return None;
    }
    let generation: u64 = generation.parse().ok()?;
    let body = InstanceId { sandbox: sandbox.parse().ok()?, generation: Generation(generation) };
    // One body has one name: no leading zeros, no plus sign.
    (write(body) == name).then_some(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_reads_back_as_the_body_it_was_written_for() {
        let body = InstanceId { sandbox: SandboxId(77), generation: Generation(3) };

        assert_eq!(read(&write(body)), Some(body));
    }

    #[test]
    fn what_is_not_exactly_a_mark_is_none() {
        let mark = write(InstanceId { sandbox: SandboxId(1), generation: Generation(1) });

        for other in [mark.replace("v1", "v9"), format!("{mark}0x"), mark.replace(".1", ".01"), "tmp".into()]
        {
            assert_eq!(read(&other), None, "{other}");
        }
    }
}
