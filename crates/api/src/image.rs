//! What sandboxes can be made from, besides the host itself.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Image {
    pub name: String,
    pub id: String,
    pub layers: u64,
    pub bytes: u64,
    #[schema(format = DateTime)]
    pub imported_at: String,
    /// What the image holds and sandboxes do not get: devices, FIFOs, sockets.
    pub left_out: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImageRemoved {
    pub name: String,
    pub id: String,
    /// Its content went too, since no other name is left for it.
    pub last_name: bool,
}
