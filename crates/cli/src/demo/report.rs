//! The demo's result, as a table and as a JSON document.

use std::fmt;

use pinfold_api as api;
use pinfold_lifecycle::{Cause, Finding, Receipt, SandboxId};
use pinfold_service::receipt as receipt_of;
use serde::Serialize;

use super::agents::Agent;
use crate::json_output::wire_name;
use crate::table::format_table;

/// An agent that has ended and whose sandbox is proven gone.
pub(super) struct EndedAgent {
    pub(super) agent: Agent,
    pub(super) sandbox: SandboxId,
    pub(super) exit_code: Option<i32>,
    pub(super) cause: Cause,
    pub(super) duration_ms: u64,
    pub(super) receipt: Receipt,
}

#[derive(Serialize)]
pub(super) struct DemoReport {
    all_as_expected: bool,
    took_ms: u64,
    /// Why memory could not be limited. None: it was limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_memory_limit: Option<String>,
    agents: Vec<AgentReport>,
}

#[derive(Serialize)]
struct AgentReport {
    agent: &'static str,
    does: &'static str,
    sandbox_id: SandboxId,
    expected: Cause,
    cause: Cause,
    exit_code: Option<i32>,
    as_expected: bool,
    duration_ms: u64,
    cpu_ms: Option<u64>,
    memory_peak_bytes: Option<u64>,
    receipt: api::Receipt,
}

impl DemoReport {
    pub(super) fn of(ended: &[EndedAgent], took_ms: u64, no_memory_limit: Option<String>) -> Self {
        let agents: Vec<_> = ended.iter().map(AgentReport::of).collect();
        let all_as_expected = agents.iter().all(|agent| agent.as_expected);
        Self { all_as_expected, took_ms, no_memory_limit, agents }
    }

    pub(super) fn succeeded(&self) -> bool {
        self.all_as_expected
    }
}

impl AgentReport {
    fn of(ended: &EndedAgent) -> Self {
        let EndedAgent { agent, sandbox, exit_code, cause, duration_ms, receipt } = ended;
        let is_gone = receipt.checks.iter().all(|check| check.result == Finding::Absent);
        Self {
            agent: agent.name,
            does: agent.does,
            sandbox_id: *sandbox,
            expected: agent.expected,
            cause: *cause,
            exit_code: *exit_code,
            as_expected: *cause == agent.expected && is_gone && !receipt.checks.is_empty(),
            duration_ms: *duration_ms,
            cpu_ms: receipt.used.and_then(|used| used.cpu_ms),
            memory_peak_bytes: receipt.used.and_then(|used| used.memory_peak_bytes),
            receipt: receipt_of(*sandbox, *cause, receipt),
        }
    }

    fn cells(&self) -> Vec<String> {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
        let checks = &self.receipt.checks;
        let absent = checks.iter().filter(|check| check.result == api::Finding::Absent).count();
        let proven = match absent == checks.len() {
            true => format!("all {absent} absent"),
            false => format!("{absent} of {} absent", checks.len()),
        };
        vec![
            self.agent.to_owned(),
            wire_name(&self.expected),
            format!("{}{}", wire_name(&self.cause), if self.as_expected { "" } else { " (!)" }),
            or_dash(self.exit_code.map(|code| code.to_string())),
            seconds(self.duration_ms),
            or_dash(self.cpu_ms.map(seconds)),
            or_dash(self.memory_peak_bytes.map(mebibytes)),
            proven,
        ]
    }
}

impl fmt::Display for DemoReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let titles = ["AGENT", "EXPECTED", "CAUSE", "EXIT", "DURATION", "CPU", "PEAK MEMORY", "RECEIPT"];
        let titles = titles.map(str::to_owned).to_vec();
        let rows: Vec<_> =
            std::iter::once(titles).chain(self.agents.iter().map(AgentReport::cells)).collect();
        writeln!(f, "{}", format_table(&rows))?;
        let as_expected = self.agents.iter().filter(|agent| agent.as_expected).count();
        writeln!(
            f,
            "{as_expected} of {} ended as expected, in {}. After each end these were checked to be gone: \
             processes, control groups, mounts, namespaces, directories, sockets.",
            self.agents.len(),
            seconds(self.took_ms)
        )
    }
}

pub(super) fn seconds(ms: u64) -> String {
    format!("{}.{} s", ms / 1_000, ms % 1_000 / 100)
}

pub(super) fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}
