//! Path resolution and its errors. Paths are resolved within the root and not through magic links such as
//! `/proc/self/fd`, which would lead to the descriptors of the resolving process.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

use pinfold_keeper_wire::files::{FileReason, PathBytes};

#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) reason: FileReason,
    pub(super) why: String,
}

/// Base of relative paths.
const WORK: &str = "/workspace";
const LONGEST: usize = 4_095;

impl Refusal {
    pub(super) fn of(path: &Path, error: impl Into<io::Error>) -> Self {
        let error = error.into();
        let reason = match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOENT) => FileReason::NotFound,
            Some(Errno::NOTDIR) => FileReason::NotADirectory,
            Some(Errno::ISDIR) => FileReason::IsADirectory,
            Some(Errno::EXIST) => FileReason::Exists,
            Some(Errno::NOTEMPTY) => FileReason::NotEmpty,
            Some(Errno::BUSY | Errno::XDEV) => FileReason::InUse,
            Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => FileReason::Denied,
            Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => FileReason::Full,
            Some(Errno::NAMETOOLONG | Errno::LOOP | Errno::INVAL) => FileReason::BadPath,
            _ => FileReason::Failed,
        };
        Self::because(reason, path, &error.to_string())
    }

    pub(super) fn because(reason: FileReason, path: &Path, why: &str) -> Self {
        Self { reason, why: format!("`{}`: {why}", path.display()) }
    }
}

/// Makes a path absolute and checks that the kernel accepts it.
pub(super) fn absolute(name: &PathBytes) -> Result<std::path::PathBuf, Refusal> {
    let path = Path::new(OsStr::from_bytes(&name.0));
    let refuse = |why| Err(Refusal::because(FileReason::BadPath, path, why));
    if name.0.is_empty() {
        return refuse("the path is empty");
    }
    if name.0.contains(&0) {
        return refuse("the path contains a NUL");
    }
    let path = Path::new(WORK).join(path);
    if path.as_os_str().len() > LONGEST { refuse("the path is too long") } else { Ok(path) }
}

pub(super) fn open(path: &Path, flags: OFlags) -> Result<OwnedFd, Refusal> {
    // An O_PATH open cannot block, and the kernel rejects these flags with it.
    let never_hang =
        if flags.contains(OFlags::PATH) { OFlags::empty() } else { OFlags::NOCTTY | OFlags::NONBLOCK };
    let flags = flags | OFlags::CLOEXEC | never_hang;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    loop {
        match openat2(CWD, path, flags, Mode::empty(), resolve) {
            Ok(descriptor) => return Ok(descriptor),
            // EAGAIN: a concurrent rename on the path; the kernel asks to retry.
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(Refusal::of(path, error)),
        }
    }
}

/// Opens the parent directory and returns it with the last path component, which is not followed.
pub(super) fn open_parent(path: &Path) -> Result<(OwnedFd, &OsStr), Refusal> {
    let name = match path.components().next_back() {
        Some(Component::Normal(name)) => name,
        _ => return Err(Refusal::because(FileReason::BadPath, path, "the path does not end in a name")),
    };
    let parent = path.parent().unwrap_or(Path::new("/"));
    Ok((open(parent, OFlags::PATH | OFlags::DIRECTORY)?, name))
}
