//! Questions of those who wait for room, to either side.

use pinfold_api::{CreatePending, CreateSandbox, ErrorCode, QueuePlace, Sandbox};
use pinfold_client::Answered;
use pinfold_lifecycle::PlaceId;
use pinfold_server::Failure as ServiceFailure;
use pinfold_server::service::Asking;

use super::asked::{Asked, START_S, ask, made};
use super::{Here, Plane, PlaneError};
use crate::queueing::Ticket;

impl Here {
    pub(super) fn asking(&self, turn: Option<Ticket>) -> Asking<'static> {
        let queue = turn.map(|Ticket { id, ms }| self.service.queue_for(id, ms));
        Asking { queue, ..Asking::default() }
    }
}

impl Plane {
    /// Waits for room, and then until it is ready if that is wanted.
    pub(crate) async fn create_in_turn(
        &self,
        wish: &CreateSandbox,
        wait: bool,
        turn: Ticket,
    ) -> Asked<Sandbox> {
        match self {
            Self::Server(server) => {
                // Who waits for nothing at all is told of a place in the queue instead of a sandbox.
                let wait_s = if wait { START_S } else { 1 };
                let ticket = turn.id.to_string();
                let asked = server.client.create_in_turn(wish, wait_s, (&ticket, turn.ms)).await;
                match asked.map_err(|error| server.judge(error))? {
                    Answered::Done(sandbox) => Ok(sandbox),
                    Answered::Pending(CreatePending::Starting(sandbox)) => Ok(*sandbox),
                    Answered::Pending(CreatePending::Queued(_)) => {
                        let told = "the server did not wait for room";
                        Err(ServiceFailure::new(ErrorCode::LimitReached, told).into())
                    }
                }
            }
            Self::Here(here) => {
                let wait_ms = if wait { START_S * 1_000 } else { 0 };
                Ok(made(here.service.create(wish, here.asking(Some(turn)), wait_ms).await?)?)
            }
        }
    }

    pub(crate) async fn place(&self, id: PlaceId) -> Asked<QueuePlace> {
        ask!(self, server => async { server.client.queue_place(&id.to_string(), 0).await },
            here => here.service.place(id, 0))
    }
}
