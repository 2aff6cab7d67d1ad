//! Opening a store, and saying clearly why not. Nothing is written before it is certain that the file is ours and
//! whole, and a store that opens has been written to.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OptionalExtension, ffi};

use super::connect::{self, Patience};
use super::locks::{self, LockError};
use super::migrate::{MigrateError, migrate};
use super::schema::MIGRATIONS;
use super::settle;
use crate::OpenError;

pub(super) const FILE: &str = "pinfold.db";

pub(super) struct Opened {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
    pub(super) instance: u128,
    pub(super) writer: i64,
}

/// Opens the store in this directory, and makes both if they are not there.
pub(super) fn open(directory: &Path, patience: Patience) -> Result<Opened, OpenError> {
    make_directory(directory).map_err(|error| refused_by_system(directory, error))?;
    locks::hold(directory).map_err(|error| refused_by_locks(directory, error))?;
    let path = directory.join(FILE);
    refuse_an_emptied_file(directory, &path)?;
    let opened = open_file(&path, patience).map_err(|error| error.at(&path))?;
    remember_instance(directory, opened.instance).map_err(|error| refused_by_system(directory, error))?;
    Ok(opened)
}

fn open_file(path: &Path, patience: Patience) -> Result<Opened, Trouble> {
    let mut connection = connect::for_writing(path, patience)?;
    refuse_a_truncated_file(&connection, path)?;
    let mode = connect::use_log(&connection, patience)?;
    if mode != "wal" {
        return Err(Trouble::NoLog { mode });
    }
    migrate(&mut connection, MIGRATIONS)?;
    let instance = instance(&connection, || random(&connection))?;
    let writer = settle::enter(&mut connection)?;
    Ok(Opened { connection, path: path.to_path_buf(), instance, writer })
}

/// A store in memory, or on a file that nobody else uses.
pub(super) fn open_alone(
    path: Option<&Path>,
    given: u128,
    patience: Patience,
) -> Result<(Connection, u128), OpenError> {
    let open = || -> Result<_, Trouble> {
        let mut connection = match path {
            Some(path) => {
                let connection = connect::for_writing(path, patience)?;
                connect::use_log(&connection, patience)?;
                connection
            }
            None => connect::in_memory()?,
        };
        migrate(&mut connection, MIGRATIONS)?;
        let instance = instance(&connection, || Ok(given))?;
        Ok((connection, instance))
    };
    open().map_err(|error| error.at(path.unwrap_or(Path::new(":memory:"))))
}

/// The id of the store, made with it. Of two processes that make it at once, the first one's holds.
fn instance(connection: &Connection, make: impl FnOnce() -> rusqlite::Result<u128>) -> Result<u128, Trouble> {
    let read = || -> rusqlite::Result<Option<String>> {
        connection
            .query_row("SELECT value FROM meta WHERE name = 'instance'", [], |row| row.get(0))
            .optional()
    };
    let text = match read()? {
        Some(text) => text,
        None => {
            connection.execute(
                "INSERT OR IGNORE INTO meta (name, value) VALUES ('instance', ?1)",
                [format!("{:032x}", make()?)],
            )?;
            read()?.unwrap_or_default()
        }
    };
    u128::from_str_radix(&text, 16)
        .map_err(|_| Trouble::Damaged("the store's instance id cannot be read".into()))
}

fn random(connection: &Connection) -> rusqlite::Result<u128> {
    let bytes: [u8; 16] = connection.query_row("SELECT randomblob(16)", [], |row| row.get(0))?;
    Ok(u128::from_be_bytes(bytes))
}

fn make_directory(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(directory)?;
    // A directory is durable when the one that names it is.
    match directory.parent() {
        Some(parent) if parent != Path::new("") => File::open(parent)?.sync_all(),
        Some(_) | None => Ok(()),
    }
}

/// SQLite takes an empty file for a new database. Where a store has been, it is a lost one.
fn refuse_an_emptied_file(directory: &Path, path: &Path) -> Result<(), OpenError> {
    let is_empty = fs::metadata(path).is_ok_and(|file| file.len() == 0);
    let remembered = fs::metadata(directory.join(locks::FILE)).is_ok_and(|file| file.len() > 0);
    if is_empty && remembered {
        return Err(OpenError::Damaged {
            path: path.to_path_buf(),
            source: "the file is empty, and there has been a store in it".into(),
        });
    }
    Ok(())
}

/// Beside the database, so that a database that was emptied is not mistaken for one that never was.
fn remember_instance(directory: &Path, instance: u128) -> io::Result<()> {
    let path = directory.join(locks::FILE);
    let text = format!("{instance:032x}\n");
    if fs::read_to_string(&path).is_ok_and(|known| known == text) {
        return Ok(());
    }
    fs::write(&path, text)
}

/// While there is a log, SQLite does not compare the length of the file with what it should be, and takes the
/// missing end for zeros. A file may be short where the log has the rest; then all of it is read, once.
fn refuse_a_truncated_file(connection: &Connection, path: &Path) -> Result<(), Trouble> {
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
        return Err(Trouble::Damaged(format!("{there} bytes are left of {whole}")));
    }
    let verdict: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if verdict == "ok" { Ok(()) } else { Err(Trouble::Damaged(verdict)) }
}

/// What may go wrong with the file itself, before it is said where.
enum Trouble {
    Sqlite(rusqlite::Error),
    Migrate(MigrateError),
    Damaged(String),
    NoLog { mode: String },
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<MigrateError> for Trouble {
    fn from(error: MigrateError) -> Self {
        match error {
            MigrateError::Sqlite(error) => Self::Sqlite(error),
            refused => Self::Migrate(refused),
        }
    }
}

impl Trouble {
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
            Self::NoLog { mode } => OpenError::NoLocks {
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
