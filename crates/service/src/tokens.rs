//! Access tokens. A token is `pft_`, its id and 256 random bits. The store has only its hash, so reading the store
//! does not grant access.

use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pinfold_api as api;
use pinfold_engine::{Ids, RandomIds};
use pinfold_lifecycle::TokenId;
use pinfold_store::{Role, StoreError, Token};
use rustix::rand::{GetRandomFlags, getrandom};
use subtle::ConstantTimeEq;

use super::convert::{self, rfc3339};
use super::{Failure, Service};

/// The authenticated caller of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub token: TokenId,
    /// The token's name, for people.
    pub name: Arc<str>,
    pub role: Role,
}

#[derive(Debug, thiserror::Error)]
pub enum FirstTokenError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("could not write the first token to `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("the system has no random numbers")]
    Random(#[source] io::Error),
}

const PREFIX: &str = "pft_";
const SECRET_BYTES: usize = 32;
const LONGEST_NAME: usize = 128;
const FIRST_FILE: &str = "admin.token";

impl Service {
    /// The caller of a token. None: not a token, or revoked; the answer does not say which.
    pub async fn authenticate(&self, shown: &str) -> Result<Option<Caller>, Failure> {
        let Some(id) = id_in(shown) else { return Ok(None) };
        let Some(token) = self.host.store.token(id).await? else { return Ok(None) };
        let is_it: bool = token.hash.ct_eq(&api::token_hash(shown)).into();
        let caller = Caller { token: id, name: token.name.into(), role: token.role };
        Ok((is_it && token.revoked_at.is_none()).then_some(caller))
    }

    /// Proves to a client that this server knows its token, at the port where the client asked. None: the token is
    /// unknown or revoked.
    pub async fn prove_token(&self, id: TokenId, nonce: &str, port: u16) -> Result<Option<String>, Failure> {
        let Some(token) = self.host.store.token(id).await? else { return Ok(None) };
        if token.revoked_at.is_some() {
            return Ok(None);
        }
        let malformed = || Failure::bad_input("nonce", "must be 32 bytes in lower-case hexadecimal");
        api::server_proof(&token.hash, nonce, port).map(Some).ok_or_else(malformed)
    }

    /// Whether a token that was accepted is still valid. Open streams are not authenticated again, so they ask this.
    pub async fn is_token_valid(&self, id: TokenId) -> Result<bool, StoreError> {
        Ok(self.host.store.token(id).await?.is_some_and(|token| token.revoked_at.is_none()))
    }

    /// Counts a request with a token that is not valid, for metrics and alerts.
    pub fn count_wrong_token(&self) {
        self.host.meter.wrong_token();
    }

    pub async fn create_token(&self, asked: &api::NewToken) -> Result<api::TokenCreated, Failure> {
        if asked.name.is_empty() || asked.name.len() > LONGEST_NAME {
            return Err(Failure::bad_input("name", format!("1 to {LONGEST_NAME} bytes are allowed")));
        }
        let (token, secret) =
            self.new_token(&asked.name, convert::role_from_api(asked.role)).map_err(Failure::internal)?;
        self.host.store.add_token(token.clone()).await?;
        Ok(api::TokenCreated { token: view(&token), secret })
    }

    pub async fn tokens(&self) -> Result<Vec<api::Token>, Failure> {
        Ok(self.host.store.tokens().await?.iter().map(view).collect())
    }

    /// Revokes a token at once. Revoking it again changes nothing.
    pub async fn revoke_token(&self, id: TokenId) -> Result<api::Token, Failure> {
        let unknown = || Failure::new(api::ErrorCode::UnknownToken, format!("unknown token {id}"));
        if !self.host.store.revoke_token(id, self.now()).await? {
            return Err(unknown());
        }
        self.host.store.token(id).await?.as_ref().map(view).ok_or_else(unknown)
    }

    /// Creates an admin token in the data directory if there is no other valid one. The file is written first, so
    /// that a crash in between locks no operator out.
    pub async fn ensure_first_token(&self) -> Result<(), FirstTokenError> {
        let is_valid_admin = |token: &Token| token.role == Role::Admin && token.revoked_at.is_none();
        if self.host.store.tokens().await?.iter().any(is_valid_admin) {
            return Ok(());
        }
        let (token, secret) = self.new_token("made at the first start", Role::Admin)?;
        let path = self.host.data.join(FIRST_FILE);
        write_secret(&path, &secret).map_err(|source| FirstTokenError::Write { path, source })?;
        Ok(self.host.store.add_token(token).await?)
    }

    fn new_token(&self, name: &str, role: Role) -> Result<(Token, String), FirstTokenError> {
        let now = self.now();
        let id = TokenId(RandomIds.fresh(now));
        let secret = secret_of(id).map_err(FirstTokenError::Random)?;
        let hash = api::token_hash(&secret);
        let token = Token { id, name: name.to_owned(), role, hash, created_at: now, revoked_at: None };
        Ok((token, secret))
    }
}

fn view(token: &Token) -> api::Token {
    api::Token {
        id: token.id.to_string(),
        name: token.name.clone(),
        role: convert::role(token.role),
        created_at: rfc3339(token.created_at),
        revoked_at: token.revoked_at.map(rfc3339),
    }
}

fn secret_of(id: TokenId) -> io::Result<String> {
    let mut bits = [0; SECRET_BYTES];
    let filled = getrandom(&mut bits, GetRandomFlags::empty())?;
    if filled != SECRET_BYTES {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let id = id.to_string();
    let plain = id.trim_start_matches(TokenId::PREFIX);
    Ok(format!("{PREFIX}{plain}_{}", api::hex(&bits)))
}

fn id_in(shown: &str) -> Option<TokenId> {
    api::token_id(shown)?.parse().ok()
}

/// Writes the file atomically, readable by its owner only.
fn write_secret(path: &Path, secret: &str) -> io::Result<()> {
    let draft = path.with_extension(format!("draft.{}", std::process::id()));
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    writeln!(file, "{secret}")?;
    file.sync_all()?;
    std::fs::rename(&draft, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_contains_its_id_and_is_random() {
        let (one, other) = (secret_of(TokenId(7)).unwrap(), secret_of(TokenId(7)).unwrap());

        assert_eq!(id_in(&one), Some(TokenId(7)));
        assert_ne!(one, other);
        assert_ne!(api::token_hash(&one), api::token_hash(&other));
        assert_eq!(one.len(), 4 + 26 + 1 + 64);
    }

    #[test]
    fn text_that_is_not_a_token_has_no_id() {
        for shown in ["", "pft_", "pft__", "pft_short_00", "tok_00000000000000000000000007", "pft_ä_ä"] {
            assert_eq!(id_in(shown), None, "{shown}");
        }
    }
}
