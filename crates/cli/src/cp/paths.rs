//! Source and destination arguments of `pinfold cp`.

use std::path::PathBuf;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum CopyPath {
    Sandbox { sandbox: String, path: String },
    Host(HostPath),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum HostPath {
    /// Standard input or output.
    Stdio,
    Path(PathBuf),
}

impl CopyPath {
    /// A local path with a colon in its first component is written with `./` before it.
    pub(super) fn parse(given: &str) -> Self {
        match given.split_once(':') {
            Some((sandbox, path)) if !sandbox.is_empty() && !sandbox.contains('/') => {
                // `.` is the working directory of the sandbox.
                let path = if path.is_empty() { "." } else { path };
                Self::Sandbox { sandbox: sandbox.to_owned(), path: path.to_owned() }
            }
            _ if given == "-" => Self::Host(HostPath::Stdio),
            _ => Self::Host(HostPath::Path(given.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_before_a_colon_without_slashes_names_a_sandbox() {
        let sandbox =
            |sandbox: &str, path: &str| CopyPath::Sandbox { sandbox: sandbox.into(), path: path.into() };
        let host = |path: &str| CopyPath::Host(HostPath::Path(path.into()));

        assert_eq!(CopyPath::parse("sbx_1:/a:b"), sandbox("sbx_1", "/a:b"));
        assert_eq!(CopyPath::parse("name:"), sandbox("name", "."));
        assert_eq!(CopyPath::parse("./a:b"), host("./a:b"));
        assert_eq!(CopyPath::parse(":x"), host(":x"));
        assert_eq!(CopyPath::parse("-"), CopyPath::Host(HostPath::Stdio));
    }
}
