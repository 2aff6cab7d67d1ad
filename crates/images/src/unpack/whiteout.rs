//! OCI whiteouts: file names by which a layer hides files of the layers below it.

use super::refusal::{Refusal, shown};

const PREFIX: &[u8] = b".wh.";
const OWN_PREFIX: &[u8] = b".wh..wh.";
const ALL_BELOW: &[u8] = b".wh..wh..opq";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whiteout<'a> {
    /// Hides everything that lower layers have in this directory.
    Opaque,
    Entry(&'a [u8]),
    /// Bookkeeping of the tool that built the layer.
    Ignored,
}

/// Parses the name of an entry in the directory `above`. `None`: not a whiteout.
pub(super) fn read<'a>(
    above: &[&[u8]],
    name: &'a [u8],
    path: &[u8],
) -> Result<Option<Whiteout<'a>>, Refusal> {
    if above.iter().any(|part| part.starts_with(OWN_PREFIX)) {
        return Ok(Some(Whiteout::Ignored));
    }
    if above.iter().any(|part| part.starts_with(PREFIX)) {
        return Err(Refusal::ThroughFile { path: shown(path) });
    }
    match name.strip_prefix(PREFIX) {
        None => Ok(None),
        Some(_) if name == ALL_BELOW => Ok(Some(Whiteout::Opaque)),
        Some(_) if name.starts_with(OWN_PREFIX) => Ok(Some(Whiteout::Ignored)),
        Some(b"" | b".") => Err(Refusal::NoName { path: shown(path) }),
        Some(b"..") => Err(Refusal::LeadsOutside { path: shown(path) }),
        Some(hidden) => Ok(Some(Whiteout::Entry(hidden))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whiteouts_are_distinguished_from_files() {
        let read = |name: &'static [u8]| read(&[b"d"], name, name);

        assert_eq!(read(b"x"), Ok(None));
        assert_eq!(read(b".wh.x"), Ok(Some(Whiteout::Entry(b"x"))));
        assert_eq!(read(b".wh..wh..opq"), Ok(Some(Whiteout::Opaque)));
        assert_eq!(read(b".wh..wh.plnk"), Ok(Some(Whiteout::Ignored)));
    }

    #[test]
    fn a_whiteout_of_the_parent_directory_is_refused() {
        assert!(matches!(read(&[], b".wh...", b".wh..."), Err(Refusal::LeadsOutside { .. })));
        assert!(matches!(read(&[], b".wh..", b".wh.."), Err(Refusal::NoName { .. })));
        assert!(matches!(read(&[], b".wh.", b".wh."), Err(Refusal::NoName { .. })));
    }
}
