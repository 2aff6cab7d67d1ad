//! The unpacker process: reads one archive from standard input, unpacks it into its working directory, the only
//! directory it can see, and writes a report to standard output.

mod decode;
mod entries;
mod layer_tree;
mod refusal;
mod whiteout;

use std::io::{self, Write};

use pinfold_confine::jail::{self, JailIds, JailLimits};
use rustix::process::{Pid, getuid};
use serde::{Deserialize, Serialize};

use crate::{Digest, Limits};
use decode::DecodedArchive;
use entries::Entries;
use layer_tree::{LayerTree, Ownership};
pub use refusal::Refusal;

/// Hidden subcommand that makes a program its own unpacker. Its one argument goes to [`run`].
pub const UNPACK: &str = "__unpack";
/// As root, ids 0 and up in an image are stored on disk from this id on. The range lies just below that of sandboxes and
/// belongs to no user.
pub const LAYER_IDS_FIRST: u32 = 999_934_464;
pub const LAYER_IDS_COUNT: u32 = 65_536;

/// The unpacker's argument, as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct UnpackRequest {
    pub(crate) limits: Limits,
    /// Process id of the importer. The unpacker dies with it.
    pub(crate) importer_pid: i32,
}

/// The unpacker's report. It comes from a process that parsed hostile input, so it is trusted about that input only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UnpackReport {
    Unpacked(Unpacked),
    Refused(Refusal),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Unpacked {
    /// Digest of the decompressed archive.
    pub(crate) content: Digest,
    /// Size of the decompressed archive, headers included.
    pub(crate) archive_bytes: u64,
    /// Total size of the files.
    pub(crate) bytes: u64,
    pub(crate) left_out: u64,
    pub(crate) hides_all_below: bool,
}

/// Runs the unpacker. `request` comes from the importer. Call it in a single-threaded process.
pub fn run(request: &str) -> io::Result<u8> {
    let request: UnpackRequest = serde_json::from_str(request)?;
    let importer_pid = Pid::from_raw(request.importer_pid).ok_or(io::ErrorKind::InvalidInput)?;
    let (ids, ownership) = if getuid().is_root() {
        (JailIds::Range { first: LAYER_IDS_FIRST, count: LAYER_IDS_COUNT }, Ownership::Kept)
    } else {
        (JailIds::Own, Ownership::Flattened)
    };
    let limits = request.limits;
    let bounds = JailLimits {
        cpu_seconds: limits.seconds,
        memory_bytes: limits.memory_bytes,
        file_bytes: limits.file_bytes,
    };
    jail::run(importer_pid, ids, bounds, |entered| {
        let report = match entered {
            Ok(()) => unpack(ownership, &limits).map_or_else(UnpackReport::Refused, UnpackReport::Unpacked),
            Err(error) => UnpackReport::Refused(Refusal::NotConfined { why: with_causes(&error) }),
        };
        // The write fails if the importer is gone.
        u8::from(write_report(&report).is_err())
    })
}

fn write_report(report: &UnpackReport) -> io::Result<()> {
    let mut stdout = io::stdout();
    stdout.write_all(&serde_json::to_vec(report)?)?;
    stdout.flush()
}

fn with_causes(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {}", with_causes(source)))
}

fn unpack(ownership: Ownership, limits: &Limits) -> Result<Unpacked, Refusal> {
    let mut tree = LayerTree::at_root(ownership, limits)?;
    let mut entries = Entries::new(DecodedArchive::new(io::stdin().lock(), limits)?);
    while let Some(entry) = entries.next()? {
        tree.add_entry(&entry, |file| copy(&mut entries, file))?;
    }
    tree.finish()?;
    let (content, archive_bytes) = entries.into_inner().finish()?;
    let LayerTree { bytes, left_out, hides_all_below, .. } = tree;
    Ok(Unpacked { content, archive_bytes, bytes, left_out, hides_all_below })
}

fn copy(entries: &mut Entries<DecodedArchive<'_>>, file: &mut dyn Write) -> Result<(), Refusal> {
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
