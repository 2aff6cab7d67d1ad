//! States as text in rows: small JSON, and ids as people read them.

use std::str::FromStr;

use rusqlite::Row;
use rusqlite::types::Type;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::failure::{Refused, Unfit};

pub(super) fn write<T: Serialize>(value: &T) -> Result<String, Refused> {
    serde_json::to_string(value)
        .map_err(|error| Refused::Unfit { doing: "write a row", why: Unfit::Text(error) })
}

pub(super) fn read<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text).map_err(|error| unfit(column, error))
}

pub(super) fn id<T>(row: &Row<'_>, column: usize) -> rusqlite::Result<T>
where
    T: FromStr,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    let text = row.get_ref(column)?.as_str()?;
    text.parse().map_err(|error| unfit(column, error))
}

fn unfit(column: usize, error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
}
