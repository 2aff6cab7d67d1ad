//! Who may come in.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a token is good for. Each may do what those before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Look.
    Viewer,
    /// Make, use and end sandboxes.
    Operator,
    /// Say who may do what, and clean up.
    Admin,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// For people: whose it is or what it is for.
    #[schema(min_length = 1, max_length = 128)]
    pub name: String,
    pub role: Role,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    pub id: String,
    pub name: String,
    pub role: Role,
    #[schema(format = DateTime)]
    pub created_at: String,
    #[schema(format = DateTime)]
    pub revoked_at: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenCreated {
    #[serde(flatten)]
    pub token: Token,
    /// To be shown as `Authorization: Bearer …`. It is told only now.
    pub secret: String,
}
