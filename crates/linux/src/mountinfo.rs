//! Reads `/proc/self/mountinfo`, which escapes special characters in paths.

use std::path::Path;

/// Whether any mount has this path, or one below it, as mount point or source. Compared by path component: `/a/b1` is
/// not below `/a/b`.
pub(crate) fn mentions(mountinfo: &str, path: &Path) -> bool {
    // Fast path: if the last component does not occur in the text, the path does not either. Names that the kernel
    // would escape take the slow path.
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

    const LINE: &str = r"36 35 98:0 /a\040b/instance.10/root /mnt/instance.10 rw - ext4 /dev/vda rw";

    #[test]
    fn a_mount_at_the_path_is_found_and_one_with_a_longer_name_is_not() {
        assert!(mentions(LINE, Path::new("/mnt/instance.10")));
        assert!(!mentions(LINE, Path::new("/mnt/instance.1")));
    }

    #[test]
    fn a_path_with_a_space_is_found() {
        assert!(mentions(LINE, Path::new("/a b/instance.10")));
        assert!(mentions(LINE, Path::new("/a b")));
    }
}
