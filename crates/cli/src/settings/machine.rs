//! Defaults that depend on the size of this machine.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Memory per sandbox. An idle sandbox needs less, a busy one more.
const MB_PER_SANDBOX: u64 = 16;
/// Sandboxes on the smallest machine.
const MIN_SANDBOXES: u64 = 10;

/// Measured once, when settings are loaded.
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

    /// Default limit of simultaneous sandboxes.
    pub(super) fn sandboxes(self) -> u64 {
        (self.memory_mb / MB_PER_SANDBOX).max(MIN_SANDBOXES)
    }

    /// Defaults by key.
    pub(super) fn decided(self) -> BTreeMap<String, Value> {
        BTreeMap::from([("admission.sandboxes".to_owned(), json!(self.sandboxes()))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_sandbox_limit_grows_with_memory_and_is_at_least_ten() {
        let of = |memory_mb| Machine { memory_mb }.sandboxes();

        assert_eq!([of(0), of(159), of(160), of(175), of(176)], [10, 10, 10, 10, 11]);
        assert_eq!([of(4 << 10), of(24 << 10), of(1 << 20)], [256, 1_536, 65_536]);
    }
}
