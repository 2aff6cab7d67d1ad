//! The admission queue. The client chooses the queue id, so that it can read its position while it waits.

use hyper::Method;
use pinfold_api::{CreatePending, CreateSandbox, QueueEntry, RunRequest, Sandbox};

use crate::client::{EVENTS, NO_BODY, read_completion, read_json};
use crate::{Client, ClientError, Completion, Events};

impl Client {
    /// Creates a sandbox: waits up to `queue_ms` for capacity, then up to `wait_s` seconds until it is ready.
    pub async fn create_queued(
        &self,
        request: &CreateSandbox,
        wait_s: u64,
        (queue_id, queue_ms): (&str, u64),
    ) -> Result<Completion<Sandbox, CreatePending>, ClientError> {
        let path = format!("/api/sandbox?wait={wait_s}&queue={queue_ms}ms&queue_id={queue_id}");
        read_completion(self.request(Method::POST, &path, Some(request)).await?).await
    }

    /// Runs a command in a new sandbox once there is capacity, and streams its output.
    pub async fn run_streamed_queued(
        &self,
        request: &RunRequest,
        queue_id: &str,
        queue_ms: u64,
    ) -> Result<Events, ClientError> {
        let path = format!("/api/sandbox/run?queue={queue_ms}ms&queue_id={queue_id}");
        Events::from_response(self.request_accepting(Method::POST, &path, Some(request), EVENTS).await?)
    }

    /// Lists the queue entries that wait for capacity.
    pub async fn queue(&self) -> Result<Vec<QueueEntry>, ClientError> {
        read_json(self.request(Method::GET, "/api/sandbox/queue", NO_BODY).await?).await
    }

    /// Reads one queue entry, waiting up to `wait_s` seconds until it is admitted or removed.
    pub async fn queue_entry(&self, id: &str, wait_s: u64) -> Result<QueueEntry, ClientError> {
        let path = format!("/api/sandbox/queue/{id}?wait={wait_s}");
        read_json(self.request(Method::GET, &path, NO_BODY).await?).await
    }

    pub async fn leave_queue(&self, id: &str) -> Result<QueueEntry, ClientError> {
        read_json(self.request(Method::DELETE, &format!("/api/sandbox/queue/{id}"), NO_BODY).await?).await
    }
}
