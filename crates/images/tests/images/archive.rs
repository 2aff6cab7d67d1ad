//! Writes tar archives byte by byte, including malformed ones that no tar program writes.

use std::io::Write;

use pinfold_images::Digest;

/// Builder of a tar archive.
#[derive(Default, Clone)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
}

/// One entry. Defaults are those of a regular file.
pub(crate) struct Entry<'a> {
    pub(crate) path: &'a [u8],
    pub(crate) kind: u8,
    pub(crate) link: &'a [u8],
    pub(crate) mode: u32,
    pub(crate) owner: u32,
    pub(crate) contents: &'a [u8],
    /// Size in the header, if it is to be wrong.
    pub(crate) size: Option<u64>,
}

impl Default for Entry<'_> {
    fn default() -> Self {
        Self { path: b"", kind: b'0', link: b"", mode: 0o644, owner: 0, contents: b"", size: None }
    }
}

impl Archive {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn file(self, path: &str, contents: &str) -> Self {
        self.entry(&Entry { path: path.as_bytes(), contents: contents.as_bytes(), ..Entry::default() })
    }

    pub(crate) fn directory(self, path: &str) -> Self {
        self.entry(&Entry { path: path.as_bytes(), kind: b'5', mode: 0o755, ..Entry::default() })
    }

    pub(crate) fn symlink(self, path: &str, target: &str) -> Self {
        self.entry(&Entry { path: path.as_bytes(), kind: b'2', link: target.as_bytes(), ..Entry::default() })
    }

    pub(crate) fn hard_link(self, path: &str, target: &str) -> Self {
        self.entry(&Entry { path: path.as_bytes(), kind: b'1', link: target.as_bytes(), ..Entry::default() })
    }

    pub(crate) fn kind(self, path: &str, kind: u8) -> Self {
        self.entry(&Entry { path: path.as_bytes(), kind, ..Entry::default() })
    }

    /// A PAX extension for the next entry.
    pub(crate) fn pax(self, records: &[(&str, &[u8])]) -> Self {
        self.extension(b'x', &pax_records(records))
    }

    pub(crate) fn extension(self, kind: u8, contents: &[u8]) -> Self {
        self.entry(&Entry { path: b"extension", kind, contents, ..Entry::default() })
    }

    pub(crate) fn entry(mut self, entry: &Entry) -> Self {
        let mut header = [0u8; 512];
        let short = |field: &[u8], most: usize| field[..field.len().min(most)].to_vec();
        let mut put = |at: usize, field: &[u8]| header[at..at + field.len()].copy_from_slice(field);
        put(0, &short(entry.path, 100));
        put(100, format!("{:07o}\0", entry.mode).as_bytes());
        put(108, format!("{:07o}\0", entry.owner).as_bytes());
        put(116, format!("{:07o}\0", entry.owner).as_bytes());
        put(124, format!("{:011o}\0", entry.size.unwrap_or(entry.contents.len() as u64)).as_bytes());
        put(136, b"00000000017\0");
        put(148, b"        ");
        put(156, &[entry.kind]);
        put(157, &short(entry.link, 100));
        put(257, b"ustar\x0000");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.bytes.extend(header);
        self.bytes.extend(entry.contents);
        self.bytes.resize(self.bytes.len().next_multiple_of(512), 0);
        self
    }

    /// Ends the archive with its end-of-archive blocks.
    pub(crate) fn done(mut self) -> Vec<u8> {
        self.bytes.extend([0; 1024]);
        self.bytes
    }

    pub(crate) fn without_end(self) -> Vec<u8> {
        self.bytes
    }
}

pub(crate) fn pax_records(records: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (key, value) in records {
        let rest = key.len() + value.len() + 3;
        let length = (1..).find(|digits| (rest + digits).to_string().len() == *digits).unwrap() + rest;
        bytes.extend(format!("{length} {key}=").as_bytes());
        bytes.extend(*value);
        bytes.push(b'\n');
    }
    bytes
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    Digest::of(bytes).hex().to_owned()
}
