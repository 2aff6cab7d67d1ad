//! Writes the audit log: requests that could change something, and those refused for their role.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::Response;
use pinfold_lifecycle::SandboxId;
use pinfold_store::{AuditRecord, Role};
use tokio::task::JoinHandle;

use super::request_log::{CLIENT_CLOSED_REQUEST, RequestId};
use super::route_groups::RequiredRole;
use pinfold_service::Caller;
use pinfold_service::Service;

/// The audit entry of a request in progress. If the client disconnects it is dropped without a response, and written
/// all the same, since the work may continue.
pub(super) struct PendingAuditEntry {
    service: Arc<Service>,
    /// The entry as written when the client disconnects. None: the request was answered.
    entry: Option<AuditRecord>,
}

impl PendingAuditEntry {
    /// None: a read-only request.
    pub(super) fn of(request: &Request, service: &Arc<Service>, caller: &Caller) -> Option<Self> {
        let path = request.uri().path();
        // Attaching to a terminal is a GET, but sends input.
        let read_only = request.method().is_safe() && !path.ends_with("/pty");
        if read_only {
            return None;
        }
        let request_id = request.extensions().get::<RequestId>().map(|RequestId(id)| id.clone());
        let entry = AuditRecord {
            at: service.now(),
            token: caller.token,
            name: caller.name.to_string(),
            role: caller.role,
            request_id: request_id.unwrap_or_default(),
            method: request.method().to_string(),
            path: path.to_owned(),
            status: CLIENT_CLOSED_REQUEST,
            sandbox: sandbox_in_path(path),
        };
        Some(Self { service: service.clone(), entry: Some(entry) })
    }

    /// Writes the entry with the response's status. The response of an admin route waits for the returned task; other
    /// entries are written in the background.
    pub(super) fn answered(mut self, response: &Response) -> Option<JoinHandle<()>> {
        let entry = self.entry.take().filter(|_| is_recorded(response.status()))?;
        let location = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
        let sandbox = entry.sandbox.or_else(|| location.and_then(sandbox_in_path));
        let entry =
            AuditRecord { at: self.service.now(), status: response.status().as_u16(), sandbox, ..entry };
        let service = self.service.clone();
        if response.extensions().get() == Some(&RequiredRole(Role::Admin)) {
            // A separate task, so that the entry is written even if the client disconnects.
            return Some(tokio::spawn(async move { service.record_audit(entry).await }));
        }
        service.record_audit_later(entry);
        None
    }
}

impl Drop for PendingAuditEntry {
    fn drop(&mut self) {
        let Some(entry) = self.entry.take() else { return };
        let status = if std::thread::panicking() {
            StatusCode::INTERNAL_SERVER_ERROR.as_u16()
        } else {
            CLIENT_CLOSED_REQUEST
        };
        self.service.record_audit_later(AuditRecord { at: self.service.now(), status, ..entry });
    }
}

/// Whether a request with this status is recorded. Refused requests change nothing and are recorded only for a role
/// that is too low. 410 and 422 can follow a change: the sandbox was created and failed later.
fn is_recorded(status: StatusCode) -> bool {
    match status {
        StatusCode::FORBIDDEN | StatusCode::GONE | StatusCode::UNPROCESSABLE_ENTITY => true,
        other => !other.is_client_error(),
    }
}

pub(super) fn sandbox_in_path(path: &str) -> Option<SandboxId> {
    path.strip_prefix("/api/sandbox/")?.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_after_a_change_are_recorded_and_refusals_are_not() {
        for status in [200, 201, 202, 403, 410, 422, 500, 503] {
            assert!(is_recorded(StatusCode::from_u16(status).unwrap()), "{status}");
        }
        for status in [400, 401, 404, 405, 409, 413, 415, 429] {
            assert!(!is_recorded(StatusCode::from_u16(status).unwrap()), "{status}");
        }
    }
}
