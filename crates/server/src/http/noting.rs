//! Who asked for what is noted: of requests that may have changed something, and of those that a role was refused.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::Response;
use pinfold_lifecycle::SandboxId;
use pinfold_store::{Note, Role};
use tokio::task::JoinHandle;

use super::groups::Needed;
use super::requests::{HUNG_UP, RequestId};
use crate::Service;
use crate::service::Caller;

/// What is to be noted, before it is known what comes of it. Whoever hangs up drops it unanswered: it is noted all the
/// same, since what was asked for may go on.
pub(super) struct Asked {
    service: Arc<Service>,
    /// As it is where nobody answers. None: it is answered.
    note: Option<Note>,
}

impl Asked {
    /// None: it only looks.
    pub(super) fn of(request: &Request, service: &Arc<Service>, caller: &Caller) -> Option<Self> {
        let path = request.uri().path();
        // Who sits down at a terminal types.
        let looks = request.method().is_safe() && !path.ends_with("/pty");
        if looks {
            return None;
        }
        let request_id = request.extensions().get::<RequestId>().map(|RequestId(id)| id.clone());
        let note = Note {
            at: service.now(),
            token: caller.token,
            name: caller.name.to_string(),
            role: caller.role,
            request_id: request_id.unwrap_or_default(),
            method: request.method().to_string(),
            path: path.to_owned(),
            status: HUNG_UP,
            sandbox: sandbox_in(path),
        };
        Some(Self { service: service.clone(), note: Some(note) })
    }

    /// Where only an admin may ask, the answer waits for what is returned; else it is noted beside it, so that nobody
    /// waits for the disk twice.
    pub(super) fn answered(mut self, response: &Response) -> Option<JoinHandle<()>> {
        let note = self.note.take().filter(|_| is_noted(response.status()))?;
        let location = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
        let sandbox = note.sandbox.or_else(|| location.and_then(sandbox_in));
        let note = Note { at: self.service.now(), status: response.status().as_u16(), sandbox, ..note };
        let service = self.service.clone();
        if response.extensions().get() == Some(&Needed(Role::Admin)) {
            // A task of its own: who hangs up meanwhile is noted, too.
            return Some(tokio::spawn(async move { service.note(note).await }));
        }
        service.note_beside(note);
        None
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let Some(note) = self.note.take() else { return };
        let status =
            if std::thread::panicking() { StatusCode::INTERNAL_SERVER_ERROR.as_u16() } else { HUNG_UP };
        self.service.note_beside(Note { at: self.service.now(), status, ..note });
    }
}

/// What is refused comes to nothing, and is noted where a role was too low. What fails later does not come to nothing: a
/// sandbox that did not become ready, or is gone by then, was made.
fn is_noted(status: StatusCode) -> bool {
    match status {
        StatusCode::FORBIDDEN | StatusCode::GONE | StatusCode::UNPROCESSABLE_ENTITY => true,
        other => !other.is_client_error(),
    }
}

pub(super) fn sandbox_in(path: &str) -> Option<SandboxId> {
    path.strip_prefix("/api/sandbox/")?.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_after_it_began_is_noted_and_what_was_refused_is_not() {
        for status in [200, 201, 202, 403, 410, 422, 500, 503] {
            assert!(is_noted(StatusCode::from_u16(status).unwrap()), "{status}");
        }
        for status in [400, 401, 404, 405, 409, 413, 415, 429] {
            assert!(!is_noted(StatusCode::from_u16(status).unwrap()), "{status}");
        }
    }
}
