//! What the size of this machine decides, where nobody decided otherwise.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// An idle sandbox takes a small part of it; one at work takes more.
const MB_FOR_EACH: u64 = 16;
/// As many as anybody may have, however small the machine is.
const LEAST: u64 = 10;

/// Measured once, when what was decided is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Machine {
    memory_mb: u64,
}

impl Machine {
    pub(super) fn this() -> Self {
        let found = rustix::system::sysinfo();
        let bytes = u128::from(found.totalram) * u128::from(found.mem_unit);
        Self { memory_mb: u64::try_from(bytes >> 20).unwrap_or(u64::MAX) }
    }

    /// At one time.
    pub(super) fn sandboxes(self) -> u64 {
        (self.memory_mb / MB_FOR_EACH).max(LEAST)
    }

    /// By key.
    pub(super) fn decided(self) -> BTreeMap<String, Value> {
        BTreeMap::from([("admission.sandboxes".to_owned(), json!(self.sandboxes()))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_machine_holds_more_sandboxes_and_the_smallest_holds_ten() {
        let of = |memory_mb| Machine { memory_mb }.sandboxes();

        assert_eq!([of(0), of(159), of(160), of(175), of(176)], [10, 10, 10, 10, 11]);
        assert_eq!([of(4 << 10), of(24 << 10), of(1 << 20)], [256, 1_536, 65_536]);
    }
}
