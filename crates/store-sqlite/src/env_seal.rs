//! Encrypts the values of environment variables on their way into the database, and decrypts them on the way out. They
//! are where users put tokens, and a backup or a copy of the database must not tell them. Names stay readable.
//!
//! Each value is encrypted by XChaCha20-Poly1305 with a random nonce of its own; the row and the name of the variable
//! are authenticated with it, so that a value cannot be moved to another row. A stored value begins with a NUL
//! character, which no environment variable can contain.
//!
//! # A lost key
//!
//! Rows can still be read, and sandboxes be stopped: values that cannot be decrypted are left as they are stored. They
//! cannot be written back or run: [`EnvSeal::seal`] refuses them, and an execution says that its environment is
//! unreadable.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use pinfold_lifecycle::{Command, Spec};
use pinfold_store::{
    Change, IdempotencyKey, NewExecution, NewSandbox, PoolClaim, Row, StoreError, StoredExecution,
};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::key_file::{self, FoundKey, Key};

const SEALED: &str = "\0sealed-1:";
const NONCE_BYTES: usize = 24;

pub(crate) enum EnvSeal {
    /// Values are stored as they are. Only for stores of simulations, which hold no secrets.
    Clear,
    Key {
        cipher: Box<XChaCha20Poly1305>,
        digest_key: Key,
    },
    Lost {
        path: PathBuf,
        why: String,
    },
}

impl EnvSeal {
    pub(crate) fn over(path: &Path, found: FoundKey) -> Self {
        match found {
            Ok(key) => Self::Key {
                cipher: Box::new(XChaCha20Poly1305::new(
                    &key_file::derive(&key, "pinfold env values").into(),
                )),
                digest_key: key_file::derive(&key, "pinfold request digests"),
            },
            Err(why) => Self::Lost { path: path.to_owned(), why },
        }
    }

    /// What is wrong with the key, for operators.
    pub(crate) fn problem(&self) -> Option<String> {
        match self {
            Self::Clear | Self::Key { .. } => None,
            Self::Lost { path, why } => Some(lost(path, why).to_string()),
        }
    }

    pub(crate) fn seal_new(&self, new: NewSandbox) -> Result<NewSandbox, StoreError> {
        let id = new.transition.sandbox.id.to_string();
        Ok(NewSandbox {
            spec: self.seal_spec(new.spec, &id)?,
            commands: self.seal_commands(new.commands)?,
            key: self.seal_key(new.key)?,
            ..new
        })
    }

    pub(crate) fn seal_claim(&self, claim: PoolClaim) -> Result<PoolClaim, StoreError> {
        let id = claim.change.transition.sandbox.id.to_string();
        Ok(PoolClaim {
            spec: self.seal_spec(claim.spec, &id)?,
            change: self.seal_change(claim.change)?,
            key: self.seal_key(claim.key)?,
            ..claim
        })
    }

    pub(crate) fn seal_change(&self, change: Change) -> Result<Change, StoreError> {
        Ok(Change { commands: self.seal_commands(change.commands)?, ..change })
    }

    pub(crate) fn open_row(&self, row: Row) -> Row {
        match row {
            Row::Readable(mut stored) if !stored.spec.env.is_empty() => {
                let id = stored.sandbox.id.to_string();
                let mut spec = (*stored.spec).clone();
                // What cannot be decrypted stays sealed: the sandbox can be stopped, and runs nothing with it.
                let _ = self.open_env(&mut spec.env, "spec", &id);
                stored.spec = Arc::new(spec);
                Row::Readable(stored)
            }
            row => row,
        }
    }

    pub(crate) fn open_execution(&self, stored: StoredExecution) -> StoredExecution {
        if stored.command.env.is_empty() {
            return stored;
        }
        let mut command = (*stored.command).clone();
        let opened = self.open_env(&mut command.env, "command", &stored.execution.id.to_string());
        StoredExecution {
            command: Arc::new(command),
            unreadable_env: opened.err().map(|error| error.to_string()),
            ..stored
        }
    }

    fn seal_spec(&self, spec: Arc<Spec>, id: &str) -> Result<Arc<Spec>, StoreError> {
        if spec.env.is_empty() {
            return Ok(spec);
        }
        Ok(Arc::new(Spec { env: self.seal_env(&spec.env, "spec", id)?, ..(*spec).clone() }))
    }

    fn seal_commands(&self, commands: Vec<NewExecution>) -> Result<Vec<NewExecution>, StoreError> {
        let seal = |new: NewExecution| {
            if new.command.env.is_empty() {
                return Ok(new);
            }
            let env = self.seal_env(&new.command.env, "command", &new.id.to_string())?;
            Ok(NewExecution { command: Arc::new(Command { env, ..(*new.command).clone() }), ..new })
        };
        commands.into_iter().map(seal).collect()
    }

    /// The digest of a request is a digest of its environment too: without a key, short values could be guessed from it.
    fn seal_key(&self, key: Option<IdempotencyKey>) -> Result<Option<IdempotencyKey>, StoreError> {
        let Some(key) = key else { return Ok(None) };
        match self {
            Self::Clear => Ok(Some(key)),
            Self::Key { digest_key, .. } => {
                let request = key_file::hex(&key_file::mac(digest_key, key.request.as_bytes()));
                Ok(Some(IdempotencyKey { request, ..key }))
            }
            Self::Lost { path, why } => Err(lost(path, why)),
        }
    }

    fn seal_env(
        &self,
        env: &BTreeMap<String, String>,
        table: &str,
        id: &str,
    ) -> Result<BTreeMap<String, String>, StoreError> {
        let seal = |(name, value): (&String, &String)| {
            Ok((name.clone(), self.seal(value, &context(table, id, name))?))
        };
        env.iter().map(seal).collect()
    }

    fn seal(&self, value: &str, context: &[u8]) -> Result<String, StoreError> {
        let cipher = match self {
            Self::Clear => return Ok(value.to_owned()),
            Self::Key { cipher, .. } => cipher,
            Self::Lost { path, why } => return Err(lost(path, why)),
        };
        if value.starts_with(SEALED) {
            return Err(failed("the environment of the sandbox could not be decrypted"));
        }
        let mut nonce = [0; NONCE_BYTES];
        match getrandom(&mut nonce, GetRandomFlags::empty()) {
            Ok(NONCE_BYTES) => {}
            Ok(_) | Err(_) => return Err(failed("the kernel gave no random numbers")),
        }
        let sealed = cipher
            .encrypt(&XNonce::from(nonce), Payload { msg: value.as_bytes(), aad: context })
            .map_err(|_| failed("the value is too long to be encrypted"))?;
        Ok(format!("{SEALED}{}", STANDARD_NO_PAD.encode([nonce.as_slice(), &sealed].concat())))
    }

    fn open_env(&self, env: &mut BTreeMap<String, String>, table: &str, id: &str) -> Result<(), StoreError> {
        for (name, value) in env {
            if let Some(sealed) = value.strip_prefix(SEALED) {
                *value = self.open(sealed, &context(table, id, name))?;
            }
        }
        Ok(())
    }

    fn open(&self, sealed: &str, context: &[u8]) -> Result<String, StoreError> {
        let cipher = match self {
            Self::Clear => return Err(failed("this store has no key")),
            Self::Key { cipher, .. } => cipher,
            Self::Lost { path, why } => return Err(lost(path, why)),
        };
        let damaged = || failed("a stored value is damaged, or belongs to another row");
        let bytes = STANDARD_NO_PAD.decode(sealed).map_err(|_| damaged())?;
        let (nonce, sealed) = bytes.split_at_checked(NONCE_BYTES).ok_or_else(damaged)?;
        let nonce = XNonce::try_from(nonce).map_err(|_| damaged())?;
        let opened = cipher.decrypt(&nonce, Payload { msg: sealed, aad: context }).map_err(|_| damaged())?;
        String::from_utf8(opened).map_err(|_| damaged())
    }
}

/// What a value is bound to: its table, row and name. None of them contains a NUL character.
fn context(table: &str, id: &str, name: &str) -> Vec<u8> {
    [table, id, name].join("\0").into_bytes()
}

fn lost(path: &Path, why: &str) -> StoreError {
    StoreError::KeyLost { path: path.to_owned(), why: why.to_owned() }
}

fn failed(why: &str) -> StoreError {
    StoreError::Failed { action: "encrypt or decrypt environment variables", source: why.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_key(byte: u8) -> EnvSeal {
        EnvSeal::over(Path::new("/nowhere"), Ok([byte; key_file::KEY_BYTES]))
    }

    #[test]
    fn value_opens_only_with_its_key_in_its_row() {
        let sealed = with_key(1).seal("secret", b"row").unwrap();
        let text = sealed.strip_prefix(SEALED).unwrap();

        assert_eq!(with_key(1).open(text, b"row").unwrap(), "secret");
        assert!(with_key(1).open(text, b"other row").is_err());
        assert!(with_key(2).open(text, b"row").is_err());
        assert_ne!(with_key(1).seal("secret", b"row").unwrap(), sealed, "a nonce is never used again");
    }

    #[test]
    fn value_that_was_not_decrypted_is_not_encrypted_again() {
        let sealed = with_key(1).seal("secret", b"row").unwrap();

        assert!(with_key(1).seal(&sealed, b"row").is_err());
    }
}
