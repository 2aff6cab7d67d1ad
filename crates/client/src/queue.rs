//! Waiting for room: under an id of one's own, so that the place can be looked at meanwhile.

use hyper::Method;
use pinfold_api::{CreatePending, CreateSandbox, QueuePlace, RunRequest, Sandbox};

use crate::client::{EVENTS, NOTHING, answered, read};
use crate::{Answered, Client, ClientError, Events};

impl Client {
    /// Makes a sandbox, waits so long for room and then so long until it is ready.
    pub async fn create_in_turn(
        &self,
        wish: &CreateSandbox,
        wait_s: u64,
        (ticket, queue_ms): (&str, u64),
    ) -> Result<Answered<Sandbox, CreatePending>, ClientError> {
        let path = format!("/api/sandbox?wait={wait_s}&queue={queue_ms}ms&ticket={ticket}");
        answered(self.ask(Method::POST, &path, Some(wish)).await?).await
    }

    /// Runs a command in a sandbox of its own once there is room for it, and follows what it writes.
    pub async fn run_streamed_in_turn(
        &self,
        request: &RunRequest,
        ticket: &str,
        queue_ms: u64,
    ) -> Result<Events, ClientError> {
        let path = format!("/api/sandbox/run?queue={queue_ms}ms&ticket={ticket}");
        Events::begin(self.send(Method::POST, &path, Some(request), EVENTS).await?)
    }

    /// Who waits for room.
    pub async fn queue(&self) -> Result<Vec<QueuePlace>, ClientError> {
        read(self.ask(Method::GET, "/api/sandbox/queue", NOTHING).await?).await
    }

    /// One place in the queue, when it waits no more or after so long.
    pub async fn queue_place(&self, id: &str, wait_s: u64) -> Result<QueuePlace, ClientError> {
        let path = format!("/api/sandbox/queue/{id}?wait={wait_s}");
        read(self.ask(Method::GET, &path, NOTHING).await?).await
    }

    pub async fn leave_queue(&self, id: &str) -> Result<QueuePlace, ClientError> {
        read(self.ask(Method::DELETE, &format!("/api/sandbox/queue/{id}"), NOTHING).await?).await
    }
}
