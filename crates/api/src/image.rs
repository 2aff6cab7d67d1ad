//! Images that sandboxes can be created from.

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
    /// Entries of the image that sandboxes do not get: devices, FIFOs, sockets.
    pub left_out: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImageRemoved {
    pub name: String,
    pub id: String,
    /// True: this was the last name, so the content was removed too.
    pub last_name: bool,
}
