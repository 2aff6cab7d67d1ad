//! Values in rows as JSON text, and ids in their text form.

use std::str::FromStr;

use rusqlite::Row;
use rusqlite::types::Type;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::errors::{InvalidRequest, Refusal};

pub(crate) fn write<T: Serialize>(value: &T) -> Result<String, Refusal> {
    serde_json::to_string(value)
        .map_err(|error| Refusal::Invalid { action: "write a row", reason: InvalidRequest::Text(error) })
}

pub(crate) fn read<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text).map_err(|error| unfit(column, error))
}

pub(crate) fn id<T>(row: &Row<'_>, column: usize) -> rusqlite::Result<T>
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

#[cfg(test)]
mod tests {
    use pinfold_lifecycle::{Limits, Spec};

    use super::*;

    #[test]
    fn a_limit_on_operations_is_read_as_it_was_written() {
        let limits = Limits { operations: Some(5), ..Limits::default() };
        let spec = Spec { limits, ..Spec::default() };

        let written = write(&spec).unwrap();

        assert_eq!(serde_json::from_str::<Spec>(&written).unwrap(), spec);
    }
}
