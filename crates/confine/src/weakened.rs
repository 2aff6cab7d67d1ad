//! Switches that disable one guard each in this process, for the attack suite. Compiled only with the feature `weakened`.

use std::sync::OnceLock;

/// The disabled guards of this process. The default disables none.
#[derive(Debug, Clone, Copy, Default)]
pub struct DisabledConfinement {
    pub ambient_capabilities_allowed: bool,
    pub inheritable_capabilities_kept: bool,
    /// Resource limits stay those of the host.
    pub host_limits: bool,
}

static DISABLED: OnceLock<DisabledConfinement> = OnceLock::new();

/// Disables guards, once for each process.
pub fn disable(guards: DisabledConfinement) {
    let _ = DISABLED.set(guards);
}

pub(crate) fn disabled() -> DisabledConfinement {
    DISABLED.get().copied().unwrap_or_default()
}
