//! Parses the entries of a tar archive: ustar with PAX and GNU extensions.
//! Input that two tar readers could interpret differently is refused.

use std::io::{self, Read};

use tar::{EntryType, Header};

use super::decode::refusal_from;
use super::refusal::{Refusal, shown};

const BLOCK: usize = 512;
/// Size limit of one extension header.
const LONGEST_EXTENSION: u64 = 1 << 20;

/// One entry of the archive.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) path: Vec<u8>,
    pub(super) kind: Kind,
    pub(super) mode: u32,
    pub(super) uid: u64,
    pub(super) gid: u64,
    pub(super) modified: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File {
        bytes: u64,
    },
    Directory,
    Symlink {
        target: Vec<u8>,
    },
    HardLink {
        target: Vec<u8>,
    },
    /// A device or a FIFO.
    Special,
}

pub(super) struct Entries<R> {
    input: R,
    /// Offset of the next byte of `input`.
    at: u64,
    /// Unread content bytes of the current entry, and the padding after them.
    left: u64,
    padding: u64,
}

/// Fields set by the extension headers before an entry.
#[derive(Default)]
struct Extension {
    any: bool,
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    uid: Option<u64>,
    gid: Option<u64>,
    modified: Option<u64>,
    sparse: bool,
}

impl<R: Read> Entries<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, at: 0, left: 0, padding: 0 }
    }

    pub(super) fn into_inner(self) -> R {
        self.input
    }

    /// The next entry. `None` at the end-of-archive block.
    pub(super) fn next(&mut self) -> Result<Option<Entry>, Refusal> {
        let mut extension = Extension::default();
        loop {
            self.skip()?;
            let at = self.at;
            let Some(header) = self.header()? else {
                return if extension.any { Err(Refusal::CutShort) } else { Ok(None) };
            };
            let bad = |why: &str| Refusal::BadHeader { at, why: why.to_owned() };
            let size = header.entry_size().map_err(|_| bad("the size is not a number"))?;
            self.left = size;
            self.padding = size.wrapping_neg() % BLOCK as u64;
            match header.entry_type() {
                EntryType::GNULongName => extension.path = Some(self.long_name(at)?),
                EntryType::GNULongLink => extension.link = Some(self.long_name(at)?),
                EntryType::XHeader => extension.read_pax(&self.extension(at)?, at)?,
                EntryType::XGlobalHeader => refuse_global(&self.extension(at)?, at)?,
                _ => return self.entry(&header, extension, at).map(Some),
            }
            // A global header belongs to no single entry.
            extension.any |= header.entry_type() != EntryType::XGlobalHeader;
        }
    }

    /// Reads contents of the current entry, up to its size.
    pub(super) fn read_contents(&mut self, buffer: &mut [u8]) -> Result<usize, Refusal> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        let read = loop {
            match self.input.read(&mut buffer[..most]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other.map_err(refusal_from)?,
            }
        };
        if read == 0 {
            return Err(Refusal::CutShort);
        }
        self.left -= read as u64;
        self.at += read as u64;
        Ok(read)
    }

    fn entry(&mut self, header: &Header, extension: Extension, at: u64) -> Result<Entry, Refusal> {
        let bad = |why: &str| Refusal::BadHeader { at, why: why.to_owned() };
        let path = extension.path.unwrap_or_else(|| header.path_bytes().into_owned());
        let link = extension.link.or_else(|| header.link_name_bytes().map(|name| name.into_owned()));
        for name in [Some(&path), link.as_ref()].into_iter().flatten() {
            if name.contains(&0) {
                return Err(Refusal::NulInName { path: shown(name) });
            }
        }
        if let Some(pax) = extension.size.filter(|pax| *pax != self.left) {
            return Err(Refusal::TwoSizes { path: shown(&path), ustar: self.left, pax });
        }
        if extension.sparse || header.entry_type() == EntryType::GNUSparse {
            return Err(Refusal::Sparse { path: shown(&path) });
        }
        let target = || link.clone().ok_or_else(|| bad("the link has no target"));
        let kind = match header.entry_type() {
            // Pre-POSIX archives mark directories by a trailing slash.
            EntryType::Regular if path.ends_with(b"/") => Kind::Directory,
            EntryType::Regular | EntryType::Continuous => Kind::File { bytes: self.left },
            EntryType::Directory => Kind::Directory,
            EntryType::Symlink => Kind::Symlink { target: target()? },
            EntryType::Link => Kind::HardLink { target: target()? },
            EntryType::Char | EntryType::Block | EntryType::Fifo => Kind::Special,
            other => {
                return Err(Refusal::UnknownKind { path: shown(&path), kind: shown(&[other.as_byte()]) });
            }
        };
        if self.left > 0 && !matches!(kind, Kind::File { .. }) {
            return Err(Refusal::UnexpectedContents { path: shown(&path) });
        }
        Ok(Entry {
            path,
            kind,
            mode: header.mode().map_err(|_| bad("the mode is not a number"))?,
            uid: extension
                .uid
                .map_or_else(|| header.uid(), Ok)
                .map_err(|_| bad("the owner is not a number"))?,
            gid: extension
                .gid
                .map_or_else(|| header.gid(), Ok)
                .map_err(|_| bad("the group is not a number"))?,
            // Some archives omit the time; nothing depends on it.
            modified: extension.modified.or_else(|| header.mtime().ok()).unwrap_or(0),
        })
    }

    /// Reads a header block. `None` at the end-of-archive block, which is all zeros.
    fn header(&mut self) -> Result<Option<Header>, Refusal> {
        let at = self.at;
        let mut header = Header::new_old();
        self.fill(header.as_mut_bytes())?;
        let bytes = header.as_bytes();
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        // The checksum covers the header with its checksum field filled with spaces.
        let around = bytes[..148].iter().chain(&bytes[156..]);
        let sum = around.map(|byte| u32::from(*byte)).sum::<u32>() + 8 * u32::from(b' ');
        match header.cksum() {
            Ok(noted) if noted == sum => Ok(Some(header)),
            _ if at == 0 => Err(Refusal::NotAnArchive),
            _ => Err(Refusal::BadHeader { at, why: "the checksum is wrong".to_owned() }),
        }
    }

    fn long_name(&mut self, at: u64) -> Result<Vec<u8>, Refusal> {
        let mut name = self.extension(at)?;
        if name.last() == Some(&0) {
            name.pop();
        }
        Ok(name)
    }

    fn extension(&mut self, at: u64) -> Result<Vec<u8>, Refusal> {
        if self.left > LONGEST_EXTENSION {
            return Err(Refusal::BadHeader { at, why: format!("an extension of {} bytes", self.left) });
        }
        let mut bytes = vec![0; usize::try_from(self.left).unwrap_or(0)];
        self.fill(&mut bytes)?;
        self.left = 0;
        Ok(bytes)
    }

    fn skip(&mut self) -> Result<(), Refusal> {
        let rest = self.left + self.padding;
        let skipped = io::copy(&mut self.input.by_ref().take(rest), &mut io::sink()).map_err(refusal_from)?;
        self.at += skipped;
        (self.left, self.padding) = (0, 0);
        if skipped == rest { Ok(()) } else { Err(Refusal::CutShort) }
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), Refusal> {
        self.input.read_exact(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof if self.at == 0 => Refusal::NotAnArchive,
            _ => refusal_from(error),
        })?;
        self.at += buffer.len() as u64;
        Ok(())
    }
}

impl Extension {
    fn read_pax(&mut self, records: &[u8], at: u64) -> Result<(), Refusal> {
        for (key, value) in pax(records, at)? {
            match key.as_slice() {
                b"path" => self.path = Some(value),
                b"linkpath" => self.link = Some(value),
                b"size" => self.size = Some(number(&value, at)?),
                b"uid" => self.uid = Some(number(&value, at)?),
                b"gid" => self.gid = Some(number(&value, at)?),
                // Fractions are truncated; times before 1970 are dropped.
                b"mtime" => {
                    self.modified = value.split(|b| *b == b'.').next().and_then(|v| number(v, at).ok())
                }
                key if key.starts_with(b"GNU.sparse.") => self.sparse = true,
                // Extended attributes are dropped: file capabilities and overlayfs attributes must not come from an archive.
                _ => {}
            }
        }
        Ok(())
    }
}

/// Allows comments, and refuses keys that would change every later entry: tar readers disagree on these.
fn refuse_global(records: &[u8], at: u64) -> Result<(), Refusal> {
    const CHANGING: [&[u8]; 3] = [b"path", b"linkpath", b"size"];
    let changing = pax(records, at)?.into_iter().find(|(key, _)| CHANGING.contains(&key.as_slice()));
    changing.map_or(Ok(()), |(key, _)| {
        Err(Refusal::BadHeader { at, why: format!("`{}` for all entries at once", shown(&key)) })
    })
}

/// A key and its value.
type Record = (Vec<u8>, Vec<u8>);

/// Parses `length key=value` records. Only the length delimits them: a value may hold any byte.
fn pax(mut records: &[u8], at: u64) -> Result<Vec<Record>, Refusal> {
    let bad = || Refusal::BadHeader { at, why: "the PAX extension is malformed".to_owned() };
    let mut read = Vec::new();
    while !records.is_empty() {
        let blank = records.iter().position(|byte| *byte == b' ').ok_or_else(bad)?;
        let length = usize::try_from(number(&records[..blank], at)?).map_err(|_| bad())?;
        let record = records.get(blank + 1..length).ok_or_else(bad)?;
        let (b'\n', record) = record.split_last().ok_or_else(bad)? else { return Err(bad()) };
        let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(bad)?;
        read.push((record[..equals].to_vec(), record[equals + 1..].to_vec()));
        records = &records[length..];
    }
    Ok(read)
}

fn number(text: &[u8], at: u64) -> Result<u64, Refusal> {
    let digits = std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    digits
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(|| Refusal::BadHeader { at, why: format!("`{}` is not a number", shown(text)) })
}
