//! `/proc/self/mountinfo`: what is mounted where, in the kernel's own way of writing paths.

use std::path::Path;

/// Whether anything is mounted at this path or below it, or comes from there. Compared name by name: one path may
/// begin with all letters of another and have nothing to do with it.
pub(crate) fn mentions(mountinfo: &str, path: &Path) -> bool {
    // Where not even its last name occurs, no path of it does. Names that the kernel would write otherwise are read.
    let is_plain = |name: &&str| !name.contains([' ', '\t', '\n', '\\']);
    if path
        .file_name()
        .and_then(|name| name.to_str())
        .filter(is_plain)
        .is_some_and(|it| !mountinfo.contains(it))
    {
        return false;
    }
    mountinfo.split_whitespace().any(|field| Path::new(&unescape(field)).starts_with(path))
}

/// The kernel writes space, tab, newline and backslash as three octal digits.
pub(crate) fn unescape(field: &str) -> String {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        match octal(rest) {
            Some(byte) => {
                bytes.push(byte);
                rest = &rest[4..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn octal(rest: &[u8]) -> Option<u8> {
    let [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] = *rest else { return None };
    Some((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r"36 35 98:0 /a\040b/body.10/root /mnt/body.10 rw - ext4 /dev/vda rw";

    #[test]
    fn a_mount_below_a_path_is_found_and_one_that_only_begins_alike_is_not() {
        assert!(mentions(LINE, Path::new("/mnt/body.10")));
        assert!(!mentions(LINE, Path::new("/mnt/body.1")));
    }

    #[test]
    fn a_path_with_a_space_is_found() {
        assert!(mentions(LINE, Path::new("/a b/body.10")));
        assert!(mentions(LINE, Path::new("/a b")));
    }
}
