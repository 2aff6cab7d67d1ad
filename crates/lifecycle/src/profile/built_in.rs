//! The built-in profiles: one per agent type, and the default.

use super::Profile;
use crate::{ExecutionLimits, Limits};

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
/// An agent without output and without an open egress request for this long is stuck.
const QUIET_AGENT: u64 = 60 * SECOND;

/// Name of the default profile.
pub const DEFAULT_NAME: &str = "default";

/// Used when no agent type is given. Its commands may run as long as the sandbox lives.
pub const DEFAULT: Profile = Profile {
    is_agent: false,
    limits: Limits {
        memory_mb: Some(1024),
        cpu_millis: None,
        cpu_time_ms: None,
        network_requests: None,
        // Unlimited except by memory, since the default file system is held in memory.
        disk_mb: None,
        inodes: None,
        processes: Some(512),
        open_files: Some(4096),
        output_mb: Some(64),
        operations: None,
    },
    execution: ExecutionLimits { timeout_ms: None, inactivity_ms: None },
};

/// All built-in profiles by name, the default first.
pub const PROFILES: &[(&str, Profile)] = &[
    (DEFAULT_NAME, DEFAULT),
    ("ELICITATION", agent(Agent { memory_mb: 256, cpu_s: 30, minutes: 5, requests: 10, processes: 128 })),
    ("TEST_WRITER", agent(Agent { memory_mb: 512, cpu_s: 60, minutes: 10, requests: 20, processes: 256 })),
    (
        "IMPLEMENTATION",
        agent(Agent { memory_mb: 1024, cpu_s: 120, minutes: 15, requests: 50, processes: 512 }),
    ),
    (
        "CONTEXT_GATHERING",
        agent(Agent { memory_mb: 256, cpu_s: 30, minutes: 5, requests: 30, processes: 128 }),
    ),
    ("VALIDATION", agent(Agent { memory_mb: 512, cpu_s: 60, minutes: 10, requests: 20, processes: 256 })),
];

/// The values in which agent types differ.
struct Agent {
    memory_mb: u64,
    cpu_s: u64,
    minutes: u64,
    requests: u64,
    processes: u64,
}

const fn agent(it: Agent) -> Profile {
    Profile {
        is_agent: true,
        limits: Limits {
            memory_mb: Some(it.memory_mb),
            cpu_time_ms: Some(it.cpu_s * SECOND),
            network_requests: Some(it.requests),
            disk_mb: Some(1024),
            processes: Some(it.processes),
            output_mb: Some(10),
            ..DEFAULT.limits
        },
        execution: ExecutionLimits {
            timeout_ms: Some(it.minutes * MINUTE),
            inactivity_ms: Some(QUIET_AGENT),
        },
    }
}
