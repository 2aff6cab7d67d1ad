//! What is named on either side of a copy.

use std::path::PathBuf;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Side {
    Inside { sandbox: String, path: String },
    Here(Here),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Here {
    /// Standard input or output.
    Pipe,
    Path(PathBuf),
}

impl Side {
    /// A path here that has a colon in its first part is written with `./` before it.
    pub(super) fn of(given: &str) -> Self {
        match given.split_once(':') {
            Some((sandbox, path)) if !sandbox.is_empty() && !sandbox.contains('/') => {
                // Where work is done.
                let path = if path.is_empty() { "." } else { path };
                Self::Inside { sandbox: sandbox.to_owned(), path: path.to_owned() }
            }
            _ if given == "-" => Self::Here(Here::Pipe),
            _ => Self::Here(Here::Path(given.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_is_what_stands_before_a_colon_and_is_no_path() {
        let inside = |sandbox: &str, path: &str| Side::Inside { sandbox: sandbox.into(), path: path.into() };
        let here = |path: &str| Side::Here(Here::Path(path.into()));

        assert_eq!(Side::of("sbx_1:/a:b"), inside("sbx_1", "/a:b"));
        assert_eq!(Side::of("name:"), inside("name", "."));
        assert_eq!(Side::of("./a:b"), here("./a:b"));
        assert_eq!(Side::of(":x"), here(":x"));
        assert_eq!(Side::of("-"), Side::Here(Here::Pipe));
    }
}
