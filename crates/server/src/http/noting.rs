//! Who asked for what is noted: of requests that may have changed something, and of those that a role was refused.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::header::LOCATION;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use pinfold_lifecycle::{SandboxId, Timestamp};
use pinfold_store::{Note, Role};

use super::groups::Needed;
use super::requests::RequestId;
use crate::Service;
use crate::service::Caller;

/// What is to be noted, before it is known what comes of it.
pub(super) struct Asked {
    method: Method,
    path: String,
    request_id: String,
}

impl Asked {
    /// None: it only looks.
    pub(super) fn of(request: &Request) -> Option<Self> {
        let path = request.uri().path();
        // Who sits down at a terminal types.
        let looks = request.method().is_safe() && !path.ends_with("/pty");
        let request_id = request.extensions().get::<RequestId>().map(|RequestId(id)| id.clone());
        (!looks).then(|| Self {
            method: request.method().clone(),
            path: path.to_owned(),
            request_id: request_id.unwrap_or_default(),
        })
    }

    /// None: it came to nothing.
    pub(super) fn answered(self, at: Timestamp, caller: &Caller, response: &Response) -> Option<Answered> {
        let status = response.status();
        if status.is_client_error() && status != StatusCode::FORBIDDEN {
            return None;
        }
        let Self { method, path, request_id } = self;
        let location = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
        let sandbox = sandbox_in(&path).or_else(|| location.and_then(sandbox_in));
        let note = Note {
            at,
            token: caller.token,
            name: caller.name.to_string(),
            role: caller.role,
            request_id,
            method: method.to_string(),
            path,
            status: status.as_u16(),
            sandbox,
        };
        Some(Answered { note, is_for_admins: response.extensions().get() == Some(&Needed(Role::Admin)) })
    }
}

/// What is to be noted.
pub(super) struct Answered {
    note: Note,
    is_for_admins: bool,
}

impl Answered {
    /// Before the answer goes out where only an admin may ask; beside it else, so that nobody waits for the disk twice.
    pub(super) async fn note(self, service: &Arc<Service>) {
        if self.is_for_admins {
            service.note(self.note).await;
        } else {
            service.note_beside(self.note);
        }
    }
}

pub(super) fn sandbox_in(path: &str) -> Option<SandboxId> {
    path.strip_prefix("/api/sandbox/")?.split('/').next()?.parse().ok()
}
