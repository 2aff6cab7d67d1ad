//! Opens a store, or says why it cannot be opened. Nothing is written before the file is known to be ours and whole;
//! opening then writes a row, so a store that opens can be written to.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OptionalExtension, ffi};

use crate::commit_recovery;
use crate::connect::{self, LockTimeout};
use crate::key_file::{self, FoundKey};
use crate::lock_check::{self, LockError};
use crate::migrate::{MigrateError, migrate};
use crate::paths::StorePaths;
use crate::reserve::Reserve;
use crate::schema::MIGRATIONS;
use pinfold_store::OpenError;

pub(crate) const FILE: &str = "pinfold.db";

pub(crate) struct Opened {
    pub(crate) connection: Connection,
    pub(crate) path: PathBuf,
    pub(crate) store_id: u128,
    pub(crate) writer: i64,
    pub(crate) key: FoundKey,
}

/// Opens the store in this directory, and creates both if they are missing.
pub(crate) fn open(paths: &StorePaths, lock_timeout: LockTimeout) -> Result<Opened, OpenError> {
    let reserve = paths.reserve_file.as_deref().map(Reserve::at);
    if let Some(reserve) = &reserve {
        // A disk that is full or cannot be measured shows when the store is opened.
        let _ = make_parent(&paths.directory).and_then(|()| reserve.adjust());
    }
    match open_once(paths, lock_timeout) {
        Err(OpenError::DiskFull { .. }) if reserve.is_some_and(|reserve| reserve.release()) => {
            open_once(paths, lock_timeout)
        }
        outcome => outcome,
    }
}

fn make_parent(directory: &Path) -> io::Result<()> {
    directory.parent().map_or(Ok(()), pinfold_private_files::make_directory)
}

fn open_once(paths: &StorePaths, lock_timeout: LockTimeout) -> Result<Opened, OpenError> {
    let directory = paths.directory.as_path();
    make_directory(directory).map_err(|error| refused_by_system(directory, error))?;
    lock_check::check_locks_work(directory).map_err(|error| refused_by_locks(directory, error))?;
    let path = directory.join(FILE);
    refuse_an_emptied_file(directory, &path)?;
    refuse_a_lost_store(paths, &path)?;
    make_private(&path).map_err(|error| refused_by_system(directory, error))?;
    let opened = open_file(&path, &paths.key_file, lock_timeout).map_err(|error| error.at(&path))?;
    remember_store_id(&directory.join(lock_check::FILE), opened.store_id)
        .map_err(|error| refused_by_system(directory, error))?;
    if let Some(marker) = &paths.id_file {
        refuse_another_store(&path, marker, opened.store_id)?;
        remember_store_id(marker, opened.store_id).map_err(|error| refused_by_system(marker, error))?;
    }
    Ok(opened)
}

fn open_file(path: &Path, key_file: &Path, lock_timeout: LockTimeout) -> Result<Opened, OpenFailure> {
    let mut connection = connect::for_writing(path, lock_timeout)?;
    refuse_a_truncated_file(&connection, path)?;
    let mode = connect::enable_wal(&connection, lock_timeout)?;
    if mode != "wal" {
        return Err(OpenFailure::NoWal { mode });
    }
    migrate(&mut connection, MIGRATIONS)?;
    let store_id = read_or_make_store_id(&connection, || random(&connection))?;
    let key = key_file::find(&connection, key_file)?;
    let writer = commit_recovery::register_writer(&mut connection)?;
    Ok(Opened { connection, path: path.to_path_buf(), store_id, writer, key })
}

/// Opens a store in memory, or on a file that no other process uses.
pub(crate) fn open_alone(
    path: Option<&Path>,
    given: u128,
    lock_timeout: LockTimeout,
) -> Result<(Connection, u128), OpenError> {
    let open = || -> Result<_, OpenFailure> {
        let mut connection = match path {
            Some(path) => {
                let connection = connect::for_writing(path, lock_timeout)?;
                connect::enable_wal(&connection, lock_timeout)?;
                connection
            }
            None => connect::in_memory()?,
        };
        migrate(&mut connection, MIGRATIONS)?;
        let store_id = read_or_make_store_id(&connection, || Ok(given))?;
        Ok((connection, store_id))
    };
    open().map_err(|error| error.at(path.unwrap_or(Path::new(":memory:"))))
}

/// The id of the store, made with it. Of two processes that make it at once, the first one's holds.
fn read_or_make_store_id(
    connection: &Connection,
    make: impl FnOnce() -> rusqlite::Result<u128>,
) -> Result<u128, OpenFailure> {
    let read = || -> rusqlite::Result<Option<String>> {
        connection
            .query_row("SELECT value FROM meta WHERE name = 'store_id'", [], |row| row.get(0))
            .optional()
    };
    let text = match read()? {
        Some(text) => text,
        None => {
            connection.execute(
                "INSERT OR IGNORE INTO meta (name, value) VALUES ('store_id', ?1)",
                [format!("{:032x}", make()?)],
            )?;
            read()?.unwrap_or_default()
        }
    };
    u128::from_str_radix(&text, 16).map_err(|_| OpenFailure::Damaged("the store id cannot be read".into()))
}

fn random(connection: &Connection) -> rusqlite::Result<u128> {
    let bytes: [u8; 16] = connection.query_row("SELECT randomblob(16)", [], |row| row.get(0))?;
    Ok(u128::from_be_bytes(bytes))
}

fn make_directory(directory: &Path) -> io::Result<()> {
    let is_new = !directory.is_dir();
    pinfold_private_files::make_directory(directory)?;
    if !is_new {
        return Ok(());
    }
    // A new directory is durable when its parent is synced.
    match directory.parent() {
        Some(parent) if parent != Path::new("") => File::open(parent)?.sync_all(),
        Some(_) | None => Ok(()),
    }
}

/// Makes the database file before SQLite does, for this user alone: SQLite makes the WAL and its index with the mode of
/// the database. Files of an older version are tightened.
fn make_private(path: &Path) -> io::Result<()> {
    match pinfold_private_files::options().write(true).create_new(true).open(path) {
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    for file in [path, &path.with_extension("db-wal"), &path.with_extension("db-shm")] {
        match pinfold_private_files::tighten(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// SQLite takes an empty file for a new database. Where a store has been, an empty file is a lost store.
fn refuse_an_emptied_file(directory: &Path, path: &Path) -> Result<(), OpenError> {
    let is_empty = fs::metadata(path).is_ok_and(|file| file.len() == 0);
    let remembered = fs::metadata(directory.join(lock_check::FILE)).is_ok_and(|file| file.len() > 0);
    if is_empty && remembered {
        return Err(OpenError::Damaged {
            path: path.to_path_buf(),
            source: "the file is empty, and there has been a store in it".into(),
        });
    }
    Ok(())
}

/// A data directory that has had a store does not silently begin with an empty one: all sandboxes of the lost one would
/// be unknown.
fn refuse_a_lost_store(paths: &StorePaths, path: &Path) -> Result<(), OpenError> {
    let Some(marker) = &paths.id_file else { return Ok(()) };
    let has_store = fs::metadata(path).is_ok_and(|file| file.len() > 0);
    let had_store = fs::metadata(marker).is_ok_and(|file| file.len() > 0);
    if had_store && !has_store {
        return Err(OpenError::Gone { path: path.to_path_buf(), marker: marker.clone() });
    }
    Ok(())
}

fn refuse_another_store(path: &Path, marker: &Path, store_id: u128) -> Result<(), OpenError> {
    let remembered = fs::read_to_string(marker).ok();
    let remembered = remembered.and_then(|text| u128::from_str_radix(text.trim(), 16).ok());
    match remembered {
        Some(remembered) if remembered != store_id => {
            Err(OpenError::Other { path: path.to_path_buf(), marker: marker.to_path_buf() })
        }
        Some(_) | None => Ok(()),
    }
}

/// Writes the store id beside the database, so that an emptied database is not mistaken for a new one.
fn remember_store_id(path: &Path, store_id: u128) -> io::Result<()> {
    let text = format!("{store_id:032x}\n");
    if fs::read_to_string(path).is_ok_and(|known| known == text) {
        return Ok(());
    }
    let mut file = pinfold_private_files::create(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// While there is a WAL, SQLite does not check the length of the database file, and reads a missing end as zeros. The
/// file may be short if the WAL has the rest; then a quick check reads all of it.
fn refuse_a_truncated_file(connection: &Connection, path: &Path) -> Result<(), OpenFailure> {
    let number =
        |pragma: &str| connection.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get::<_, i64>(0));
    let whole = number("page_count")?.saturating_mul(number("page_size")?);
    let length =
        |path: &Path| fs::metadata(path).map_or(0, |file| i64::try_from(file.len()).unwrap_or(i64::MAX));
    let there = length(path);
    if there >= whole {
        return Ok(());
    }
    if length(&path.with_extension("db-wal")) == 0 {
        return Err(OpenFailure::Damaged(format!("{there} bytes are left of {whole}")));
    }
    let verdict: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if verdict == "ok" { Ok(()) } else { Err(OpenFailure::Damaged(verdict)) }
}

/// An [`OpenError`] without its path.
enum OpenFailure {
    Sqlite(rusqlite::Error),
    Migrate(MigrateError),
    Damaged(String),
    NoWal { mode: String },
}

impl From<rusqlite::Error> for OpenFailure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<MigrateError> for OpenFailure {
    fn from(error: MigrateError) -> Self {
        match error {
            MigrateError::Sqlite(error) => Self::Sqlite(error),
            refused => Self::Migrate(refused),
        }
    }
}

impl OpenFailure {
    fn at(self, path: &Path) -> OpenError {
        let path = path.to_path_buf();
        match self {
            Self::Sqlite(error) => refused_by_sqlite(path, error),
            Self::Migrate(MigrateError::Newer { found, known }) => {
                OpenError::NewerSchema { path, found, known }
            }
            Self::Migrate(MigrateError::Foreign { version }) => OpenError::ForeignMigration { path, version },
            Self::Migrate(error) => OpenError::Damaged { path, source: Box::new(error) },
            Self::Damaged(verdict) => OpenError::Damaged { path, source: verdict.into() },
            Self::NoWal { mode } => OpenError::NoLocks {
                path,
                source: format!(
                    "it cannot share memory between processes, and offers only the journal mode `{mode}`"
                )
                .into(),
            },
        }
    }
}

fn refused_by_sqlite(path: PathBuf, error: rusqlite::Error) -> OpenError {
    let code = error.sqlite_error().copied();
    let source = Box::new(error);
    let Some(ffi::Error { code, extended_code }) = code else {
        return OpenError::Failed { path, source };
    };
    match code {
        ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt => OpenError::Damaged { path, source },
        ErrorCode::DiskFull => OpenError::DiskFull { path, source },
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen => {
            OpenError::ReadOnly { path, source }
        }
        // Its shared index is written ahead, and that is where a full disk shows first.
        _ if extended_code == ffi::SQLITE_IOERR_SHMSIZE => OpenError::DiskFull { path, source },
        _ => OpenError::Failed { path, source },
    }
}

fn refused_by_locks(directory: &Path, error: LockError) -> OpenError {
    match error {
        LockError::Open(error) => refused_by_system(directory, error),
        error @ (LockError::Lock(_) | LockError::Ignored) => {
            OpenError::NoLocks { path: directory.to_path_buf(), source: Box::new(error) }
        }
    }
}

fn refused_by_system(directory: &Path, error: io::Error) -> OpenError {
    let path = directory.to_path_buf();
    let kind = error.kind();
    let source = Box::new(error);
    match kind {
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            OpenError::ReadOnly { path, source }
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => OpenError::DiskFull { path, source },
        _ => OpenError::Failed { path, source },
    }
}
