//! Paging of lists by cursor and limit.

use axum::Json as Answer;
use axum::response::{IntoResponse, Response};
use pinfold_api::NEXT_CURSOR;
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::extract::number;
use pinfold_service::Failure;

pub(super) const MOST_LISTED: u64 = 1_000;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct CursorQuery {
    /// The cursor of the page, from `X-Next-Cursor`.
    cursor: Option<String>,
    #[param(minimum = 1, maximum = 1000)]
    #[serde(default, deserialize_with = "number")]
    limit: Option<u64>,
}

pub(super) fn limit(asked: Option<u64>) -> Result<usize, Failure> {
    match asked.unwrap_or(MOST_LISTED) {
        limit @ 1..=MOST_LISTED => Ok(usize::try_from(limit).unwrap_or(usize::MAX)),
        _ => Err(Failure::bad_input("limit", format!("1 to {MOST_LISTED} are allowed"))),
    }
}

impl CursorQuery {
    /// One page of a list that is short enough to be read as a whole.
    pub(super) fn answer<T: Serialize>(
        &self,
        mut all: Vec<T>,
        id_of: impl Fn(&T) -> &str,
    ) -> Result<Response, Failure> {
        let limit = limit(self.limit)?;
        if let Some(cursor) = &self.cursor {
            let last = all.iter().position(|one| id_of(one) == cursor);
            let last = last.ok_or_else(|| Failure::bad_input("cursor", "not a cursor of this list"))?;
            all.drain(..=last);
        }
        let more = all.len() > limit;
        all.truncate(limit);
        let next = all.last().filter(|_| more).map(|last| [(NEXT_CURSOR, id_of(last).to_owned())]);
        Ok((next, Answer(all)).into_response())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(cursor: Option<&str>, limit: u64) -> Result<Response, Failure> {
        let all = ["a", "b", "c"].map(str::to_owned).to_vec();
        CursorQuery { cursor: cursor.map(str::to_owned), limit: Some(limit) }.answer(all, String::as_str)
    }

    fn next(page: &Response) -> Option<&str> {
        page.headers().get(NEXT_CURSOR).map(|next| next.to_str().unwrap())
    }

    #[test]
    fn a_list_is_read_in_pages_to_its_end() {
        assert_eq!(next(&page(None, 2).unwrap()), Some("b"));
        assert_eq!(next(&page(Some("b"), 2).unwrap()), None);
        assert_eq!(next(&page(None, 3).unwrap()), None);
    }

    #[test]
    fn an_unknown_cursor_and_an_invalid_limit_are_refused() {
        assert!(page(Some("x"), 2).is_err());
        assert!(page(None, 0).is_err() && page(None, 1_001).is_err());
    }
}
