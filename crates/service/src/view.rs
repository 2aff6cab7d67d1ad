//! Store rows as API responses.

use std::collections::BTreeMap;

use pinfold_api as api;
use pinfold_lifecycle::{
    Attempt, Attestation, Cause, Lease, Life, Receipt, ReceiptCheck, SandboxId, Status, Timestamp, status,
};
use pinfold_store::{Row, StoredSandbox, UnreadableRow};

use super::convert::{self, rfc3339};
use super::flags::flags;
use crate::FlagThresholds;

/// A receipt as the API shows it.
pub fn receipt(id: SandboxId, cause: Cause, receipt: &Receipt) -> api::Receipt {
    let check = |it: &ReceiptCheck| api::Check {
        kind: it.kind.clone(),
        result: convert::finding(it.result),
        means: it.means.clone(),
        detail: it.detail.clone(),
    };
    let attested = |it: &Attestation| api::Attestation {
        by: it.by.clone(),
        reason: it.reason.clone(),
        at: rfc3339(it.at),
    };
    api::Receipt {
        sandbox_id: id.to_string(),
        generation: receipt.generation.0,
        cause: convert::cause(cause),
        verified_at: rfc3339(receipt.verified_at),
        checks: receipt.checks.iter().map(check).collect(),
        freed_bytes: receipt.freed_bytes,
        usage: receipt.used.map(convert::used),
        attested: receipt.attested.as_ref().map(attested),
    }
}

pub(super) fn attempt(id: SandboxId, attempt: &Attempt) -> api::Attempt {
    let Attempt { generation, started_at, end, receipt: proof } = attempt;
    let cause = end.as_ref().map(|end| end.cause);
    api::Attempt {
        generation: generation.0,
        started_at: started_at.map(rfc3339),
        ended_at: end.as_ref().map(|end| rfc3339(end.at)),
        cause: cause.map(convert::cause),
        why: end.as_ref().and_then(|end| end.why.clone()).filter(|why| !why.is_empty()),
        receipt: proof.as_ref().zip(cause).map(|(proof, cause)| receipt(id, cause, proof)),
    }
}

/// One sandbox in a list.
pub(super) fn summary(row: &Row, now: Timestamp, rules: FlagThresholds) -> api::SandboxSummary {
    match row {
        Row::Readable(stored) => summary_of_readable(stored, now, rules),
        Row::Unreadable(row) => summary_of_unreadable(row),
    }
}

fn summary_of_readable(stored: &StoredSandbox, now: Timestamp, rules: FlagThresholds) -> api::SandboxSummary {
    let StoredSandbox { sandbox, spec, policy, .. } = stored;
    let seen = status(sandbox, now, policy);
    api::SandboxSummary {
        id: sandbox.id.to_string(),
        name: spec.name.clone(),
        status: convert::state(seen.state),
        cause: seen.cause.map(convert::cause),
        message: seen.message,
        created_at: Some(rfc3339(sandbox.created_at)),
        age_minutes: Some(now.ms_since(sandbox.created_at) / 60_000),
        expires_at: Some(rfc3339(sandbox.expires_at)),
        verified_at: seen.verified_at.map(rfc3339),
        generation: sandbox.generation().0,
        agent_type: spec.agent_type.clone(),
        image: image(stored),
        task_id: spec.task_id.clone(),
        labels: spec.labels.clone(),
        executions: sandbox.executions.len() as u64,
        timeouts: u64::from(sandbox.timeouts),
        flags: flags(stored, now, rules),
    }
}

/// An unreadable record is listed with the little that is known, since its instance may exist.
fn summary_of_unreadable(row: &UnreadableRow) -> api::SandboxSummary {
    api::SandboxSummary {
        id: row.id.to_string(),
        name: None,
        status: api::State::Unknown,
        cause: None,
        message: "its record cannot be read".into(),
        created_at: None,
        age_minutes: None,
        expires_at: None,
        verified_at: None,
        generation: row.generation.0,
        agent_type: None,
        image: "unknown".into(),
        task_id: None,
        labels: BTreeMap::new(),
        executions: 0,
        timeouts: 0,
        flags: vec!["unreadable".into()],
    }
}

pub(super) fn status_of(stored: &StoredSandbox, now: Timestamp) -> api::Status {
    let Status { state, cause, message, verified_at } = status(&stored.sandbox, now, &stored.policy);
    let (since, desired) = match &stored.sandbox.life {
        Life::Wanted => (stored.sandbox.created_at, "present"),
        Life::Ending { requested_at: asked_at, .. } => (*asked_at, "gone"),
        Life::Ended { at, .. } => (*at, "gone"),
    };
    api::Status {
        state: convert::state(state),
        reason: cause.map(convert::cause),
        message,
        since: Some(rfc3339(since)),
        verified_at: verified_at.map(rfc3339),
        desired: desired.into(),
    }
}

/// One sandbox in full. The caller has measured `usage`.
pub(super) fn sandbox(
    row: &Row,
    usage: Option<api::ResourceUsage>,
    now: Timestamp,
    rules: FlagThresholds,
) -> api::Sandbox {
    match row {
        Row::Readable(stored) => sandbox_of_readable(stored, usage, now, rules),
        Row::Unreadable(row) => sandbox_of_unreadable(row),
    }
}

fn sandbox_of_readable(
    stored: &StoredSandbox,
    usage: Option<api::ResourceUsage>,
    now: Timestamp,
    rules: FlagThresholds,
) -> api::Sandbox {
    let StoredSandbox { sandbox, spec, .. } = stored;
    let (cause, receipt) = match &sandbox.life {
        Life::Wanted => (None, None),
        Life::Ending { cause, .. } => (Some(*cause), None),
        Life::Ended { cause, receipt, .. } => {
            (Some(*cause), sandbox.is_settled().then(|| self::receipt(sandbox.id, *cause, receipt)))
        }
    };
    api::Sandbox {
        id: sandbox.id.to_string(),
        name: spec.name.clone(),
        status: status_of(stored, now),
        generation: sandbox.generation().0,
        lease: api::Lease {
            state: convert::lease_state(&sandbox.lease),
            generation: sandbox.generation().0,
            launches: sandbox.launches,
        },
        created_at: Some(rfc3339(sandbox.created_at)),
        age_minutes: Some(now.ms_since(sandbox.created_at) / 60_000),
        ready_at: None,
        start_failure: None,
        agent_type: spec.agent_type.clone(),
        image: image(stored),
        task_id: spec.task_id.clone(),
        labels: spec.labels.clone(),
        critical: spec.critical,
        workdir: spec.workdir.clone(),
        limits: limits(stored),
        deadlines: deadlines(stored),
        executions: sandbox.executions.len() as u64,
        timeouts: u64::from(sandbox.timeouts),
        usage: usage.or(receipt.as_ref().and_then(|receipt| receipt.usage)),
        cause: cause.map(convert::cause),
        receipt,
        flags: flags(stored, now, rules),
        links: links(sandbox.id),
    }
}

fn sandbox_of_unreadable(row: &UnreadableRow) -> api::Sandbox {
    let summary = summary_of_unreadable(row);
    api::Sandbox {
        id: summary.id,
        name: None,
        status: api::Status {
            state: summary.status,
            reason: None,
            message: summary.message,
            since: None,
            verified_at: None,
            desired: "gone".into(),
        },
        generation: summary.generation,
        lease: api::Lease { state: api::LeaseState::Unknown, generation: summary.generation, launches: 0 },
        created_at: None,
        age_minutes: None,
        ready_at: None,
        start_failure: None,
        agent_type: None,
        image: summary.image,
        task_id: None,
        labels: summary.labels,
        critical: false,
        workdir: None,
        limits: api::Limits::default(),
        deadlines: api::Deadlines::default(),
        executions: 0,
        timeouts: 0,
        usage: None,
        cause: None,
        receipt: None,
        flags: summary.flags,
        links: links(row.id),
    }
}

fn image(stored: &StoredSandbox) -> String {
    stored.spec.image.clone().unwrap_or_else(|| pinfold_images::HOST.into())
}

fn limits(stored: &StoredSandbox) -> api::Limits {
    let StoredSandbox { spec, policy, .. } = stored;
    api::Limits {
        memory_mb: spec.limits.memory_mb,
        cpu_millis: spec.limits.cpu_millis,
        cpu_time_ms: spec.limits.cpu_time_ms,
        timeout_ms: spec.execution.timeout_ms,
        inactivity_ms: spec.execution.inactivity_ms,
        idle_ms: policy.idle_ms,
        max_life_ms: Some(policy.max_life_ms),
        network_requests: spec.limits.network_requests,
        disk_mb: spec.limits.disk_mb,
        inodes: spec.limits.inodes,
        processes: spec.limits.processes,
        open_files: spec.limits.open_files,
        output_mb: spec.limits.output_mb,
        operations: spec.limits.operations,
    }
}

fn deadlines(stored: &StoredSandbox) -> api::Deadlines {
    let sandbox = &stored.sandbox;
    if sandbox.is_settled() {
        return api::Deadlines::default();
    }
    let idle_by = match &sandbox.lease {
        Lease::Live(live) => live.idle_by,
        _ => None,
    };
    let starts = matches!(sandbox.lease, Lease::Starting { .. });
    api::Deadlines {
        start_by: starts.then(|| rfc3339(sandbox.start_by)),
        idle_by: idle_by.map(rfc3339),
        expires_at: Some(rfc3339(sandbox.expires_at)),
        next: sandbox.next_deadline().map(rfc3339),
    }
}

fn links(id: SandboxId) -> api::Links {
    let own = convert::sandbox_url(id);
    api::Links {
        executions: format!("{own}/executions"),
        logs: format!("{own}/logs"),
        resources: format!("{own}/resources"),
        own,
    }
}
