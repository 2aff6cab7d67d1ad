//! The key file: 32 random bytes as hexadecimal text, made with the store. The database remembers which key is its own
//! (a digest of it), so that a lost or exchanged file is noticed before anything is encrypted with a wrong key.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use hmac::{Hmac, KeyInit as _, Mac as _};
use rusqlite::{Connection, OptionalExtension};
use rustix::rand::{GetRandomFlags, getrandom};
use sha2::Sha256;

pub(crate) const KEY_BYTES: usize = 32;

pub(crate) type Key = [u8; KEY_BYTES];

/// The key of a store, or why there is none.
pub(crate) type FoundKey = Result<Key, String>;

/// Reads the key of this database. A database that has none yet gets one: the key in the file, which is made if it is
/// missing.
pub(crate) fn find(connection: &Connection, path: &Path) -> rusqlite::Result<FoundKey> {
    if let Some(own) = stored_id(connection)? {
        return Ok(read_own(path, &own));
    }
    let key = match read_or_make(path) {
        Ok(key) => key,
        Err(why) => return Ok(Err(why)),
    };
    connection.execute("INSERT OR IGNORE INTO meta (name, value) VALUES ('key_id', ?1)", [id_of(&key)])?;
    // Of two processes that make the store at once, the first one's key is in the database.
    Ok(read_own(path, &stored_id(connection)?.unwrap_or_default()))
}

/// A key for one purpose. No purpose learns the key itself or the key of another.
pub(crate) fn derive(key: &Key, purpose: &str) -> Key {
    mac(key, purpose.as_bytes())
}

pub(crate) fn mac(key: &Key, message: &[u8]) -> Key {
    let Ok(mac) = Hmac::<Sha256>::new_from_slice(key) else {
        unreachable!("HMAC accepts keys of any length")
    };
    mac.chain_update(message).finalize().into_bytes().into()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn id_of(key: &Key) -> String {
    hex(&derive(key, "pinfold key id"))
}

fn stored_id(connection: &Connection) -> rusqlite::Result<Option<String>> {
    connection.query_row("SELECT value FROM meta WHERE name = 'key_id'", [], |row| row.get(0)).optional()
}

fn read_own(path: &Path, id: &str) -> FoundKey {
    match read(path)? {
        None => Err("is missing".into()),
        Some(key) if id_of(&key) == id => Ok(key),
        Some(_) => Err("holds the key of another store".into()),
    }
}

fn read_or_make(path: &Path) -> FoundKey {
    if let Some(key) = read(path)? {
        return Ok(key);
    }
    make(path).map_err(|error| format!("could not be made ({error})"))?;
    read(path)?.ok_or_else(|| "is missing".into())
}

fn read(path: &Path) -> Result<Option<Key>, String> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot be read ({error})")),
    };
    pinfold_private_files::tighten(path).map_err(|error| format!("cannot be made private ({error})"))?;
    parse(text.trim()).map(Some).ok_or_else(|| "does not hold a key".into())
}

fn parse(text: &str) -> Option<Key> {
    let mut key = [0; KEY_BYTES];
    if text.len() != 2 * KEY_BYTES {
        return None;
    }
    for (at, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(key)
}

/// The file gets its name when it is complete and durable. If two processes make one at once, the first one's stays.
fn make(path: &Path) -> io::Result<()> {
    let mut key = [0; KEY_BYTES];
    if getrandom(&mut key, GetRandomFlags::empty())? != KEY_BYTES {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let draft = path.with_file_name(pinfold_private_files::temporary_name("secrets.key")?);
    let mut file = pinfold_private_files::create(&draft)?;
    writeln!(file, "{}", hex(&key))?;
    file.sync_all()?;
    let linked = fs::hard_link(&draft, path);
    fs::remove_file(&draft)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    fs::File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}
