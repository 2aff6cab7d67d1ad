//! The unpacker: a process that reads one archive from its standard input into its working directory, which is all
//! that it sees, and writes a report to its standard output.

mod decode;
mod entries;
mod refusal;
mod tree;
mod whiteout;

use std::io::{self, Write};

use pinfold_keeper::cell::{self, Bounds, Ids};
use rustix::process::{Pid, getuid};
use serde::{Deserialize, Serialize};

use crate::{Digest, Limits};
use decode::Decoded;
use entries::Entries;
pub use refusal::Refusal;
use tree::{Ownership, Tree};

/// The hidden command under which a program is its own unpacker. Its one argument goes to [`run`].
pub const UNPACK: &str = "__unpack";
/// As root, the ids 0 and up of an image are these and up on disk: just below those of sandboxes, and nobody's.
pub const LAYER_IDS_FIRST: u32 = 999_934_464;
pub const LAYER_IDS_COUNT: u32 = 65_536;

/// What the unpacker is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) limits: Limits,
    /// The process that it ends with.
    pub(crate) starter: i32,
}

/// What the unpacker says in the end. It comes from beside hostile input, so it is only believed about that input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    Unpacked(Unpacked),
    Refused(Refusal),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Unpacked {
    /// Of the decompressed archive.
    pub(crate) content: Digest,
    /// Of the decompressed archive, headers and all.
    pub(crate) archive_bytes: u64,
    /// Of the files.
    pub(crate) bytes: u64,
    pub(crate) left_out: u64,
    pub(crate) hides_all_below: bool,
}

/// Unpacks as `request` says, which comes from an importer. Call it in a process with a single thread.
pub fn run(request: &str) -> io::Result<u8> {
    let request: Request = serde_json::from_str(request)?;
    let starter = Pid::from_raw(request.starter).ok_or(io::ErrorKind::InvalidInput)?;
    let (ids, ownership) = if getuid().is_root() {
        (Ids::Range { first: LAYER_IDS_FIRST, count: LAYER_IDS_COUNT }, Ownership::Kept)
    } else {
        (Ids::Own, Ownership::Flattened)
    };
    let limits = request.limits;
    let bounds = Bounds {
        cpu_seconds: limits.seconds,
        memory_bytes: limits.memory_bytes,
        file_bytes: limits.file_bytes,
    };
    cell::run(starter, ids, bounds, |entered| {
        let report = match entered {
            Ok(()) => unpack(ownership, &limits).map_or_else(Report::Refused, Report::Unpacked),
            Err(error) => Report::Refused(Refusal::NotConfined { why: with_causes(&error) }),
        };
        // Whoever wanted it may be gone.
        u8::from(say(&report).is_err())
    })
}

fn say(report: &Report) -> io::Result<()> {
    let mut stdout = io::stdout();
    stdout.write_all(&serde_json::to_vec(report)?)?;
    stdout.flush()
}

fn with_causes(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {}", with_causes(source)))
}

fn unpack(ownership: Ownership, limits: &Limits) -> Result<Unpacked, Refusal> {
    let mut tree = Tree::at_root(ownership, limits)?;
    let mut entries = Entries::new(Decoded::new(io::stdin().lock(), limits)?);
    while let Some(entry) = entries.next()? {
        tree.place(&entry, |file| copy(&mut entries, file))?;
    }
    tree.finish()?;
    let (content, archive_bytes) = entries.into_inner().finish()?;
    let Tree { bytes, left_out, hides_all_below, .. } = tree;
    Ok(Unpacked { content, archive_bytes, bytes, left_out, hides_all_below })
}

fn copy(entries: &mut Entries<Decoded<'_>>, file: &mut dyn Write) -> Result<(), Refusal> {
    let mut buffer = vec![0; 128 * 1024];
    loop {
        let read = entries.read_contents(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        file.write_all(&buffer[..read]).map_err(|error| Refusal::Failed {
            doing: "write".to_owned(),
            path: "a file".to_owned(),
            why: error.to_string(),
        })?;
    }
}
