//! Creates the entries of an archive under the root of this process.
//!
//! Every path is opened from the root with openat2, and no symbolic link is followed. Even without the jail around this
//! process nothing would be written outside the root.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps, Uid, XattrFlags,
    chownat, fchmod, fchown, fsetxattr, futimens, linkat, makedev, mkdirat, mknodat, openat, openat2, statat,
    symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;

use super::entries::{Entry, Kind};
use super::refusal::{Refusal, shown};
use super::whiteout::{self, Whiteout};
use crate::Limits;

/// Directories that every root must have, with their modes: the keeper mounts or writes there. A symbolic link in such a
/// place could redirect the keeper.
pub(super) const DIRECTORIES: [(&[u8], u32); 8] = [
    (b"dev", 0o755),
    (b"etc", 0o755),
    (b"proc", 0o555),
    (b"run", 0o755),
    (b"sys", 0o555),
    (b"tmp", 0o1777),
    (b"usr", 0o755),
    (b"workspace", 0o755),
];
/// Mode bits that are kept. Set-id bits are dropped: they have no effect inside, and on the host they would let a user
/// become the owner of the layer.
const KEPT_MODE: u32 = 0o1777;
const IMPLIED_DIRECTORY_MODE: u32 = 0o755;
/// The largest id inside a layer. Larger ids become `OVERFLOW_ID`.
const LARGEST_ID: u64 = 65_535;
const OVERFLOW_ID: u32 = 65_534;
const MAX_TIME: u64 = u32::MAX as u64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ownership {
    /// Owners as in the archive.
    Kept,
    /// Everything belongs to the single mapped id.
    Flattened,
}

pub(super) struct LayerTree<'a> {
    root: OwnedFd,
    ownership: Ownership,
    limits: &'a Limits,
    entries: u64,
    pub(super) left_out: u64,
    pub(super) bytes: u64,
    /// The layer hides everything in the layers below it.
    pub(super) hides_all_below: bool,
    /// Cache: the parent directory of the previous entry.
    last: Option<(Vec<u8>, OwnedFd)>,
}

impl<'a> LayerTree<'a> {
    pub(super) fn at_root(ownership: Ownership, limits: &'a Limits) -> Result<Self, Refusal> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, c"/", flags, Mode::empty()).doing("open", b"/")?;
        let (entries, left_out, bytes) = (0, 0, 0);
        Ok(Self { root, ownership, limits, entries, left_out, bytes, hides_all_below: false, last: None })
    }

    /// Creates one entry. `contents` writes a file's data.
    pub(super) fn add_entry(
        &mut self,
        entry: &Entry,
        contents: impl FnOnce(&mut dyn Write) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let parts = self.parts(&entry.path)?;
        self.count()?;
        let Some((&name, above)) = parts.split_last() else {
            // The root itself, which must be a directory.
            return match entry.kind {
                Kind::Directory => self.set_metadata(self.root.as_fd(), entry),
                _ => Err(Refusal::NoName { path: shown(&entry.path) }),
            };
        };
        match whiteout::read(above, name, &entry.path)? {
            Some(Whiteout::Ignored) => return Ok(()),
            Some(whiteout) => return self.add_whiteout(above, whiteout, &entry.path),
            None => {}
        }
        let must_be_directory = above.is_empty() && DIRECTORIES.iter().any(|(place, _)| *place == name);
        let is_directory = entry.kind == Kind::Directory;
        if entry.kind == Kind::Special || (must_be_directory && !is_directory) {
            self.left_out += 1;
            return Ok(());
        }
        self.check_size(entry)?;
        self.enter(above, &entry.path)?;
        let parent = self.parent(above);
        match &entry.kind {
            Kind::Directory => {
                let directory = make_directory(parent, name, &entry.path)?;
                self.set_metadata(directory.as_fd(), entry)
            }
            Kind::File { bytes } => {
                remove_existing(parent, name, &entry.path)?;
                let flags =
                    OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = openat(parent, name, flags, Mode::RUSR | Mode::WUSR).doing("make", &entry.path)?;
                let mut file = std::fs::File::from(file);
                contents(&mut file)?;
                self.set_metadata(file.as_fd(), entry)?;
                self.bytes += bytes;
                Ok(())
            }
            Kind::Symlink { target } => {
                remove_existing(parent, name, &entry.path)?;
                symlinkat(target.as_slice(), parent, name).doing("link", &entry.path)?;
                self.set_link_metadata(parent, name, entry)
            }
            Kind::HardLink { target } => {
                let target = target.clone();
                self.link(above, name, &target, &entry.path)
            }
            Kind::Special => Ok(()),
        }
    }

    /// Creates the required directories that the archive does not have.
    pub(super) fn finish(&mut self) -> Result<(), Refusal> {
        for (name, mode) in DIRECTORIES {
            if stat(self.root.as_fd(), name, name)?.is_some_and(|found| !is_whiteout(&found)) {
                continue;
            }
            let directory = make_directory(self.root.as_fd(), name, name)?;
            fchmod(&directory, Mode::from_raw_mode(mode)).doing("set the mode of", name)?;
        }
        Ok(())
    }

    /// Splits a path into components, relative to the root of the image. A leading `/` is that root.
    fn parts<'p>(&self, path: &'p [u8]) -> Result<Vec<&'p [u8]>, Refusal> {
        const LONGEST_PART: usize = 255;
        let too_long = |bytes, most| Refusal::NameTooLong { path: shown(path), bytes, most };
        if path.is_empty() {
            return Err(Refusal::NoName { path: String::new() });
        }
        if path.len() > self.limits.path_bytes {
            return Err(too_long(path.len(), self.limits.path_bytes));
        }
        let parts: Vec<&[u8]> =
            path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".").collect();
        if parts.iter().any(|part| *part == b"..") {
            return Err(Refusal::LeadsOutside { path: shown(path) });
        }
        if let Some(long) = parts.iter().find(|part| part.len() > LONGEST_PART) {
            return Err(too_long(long.len(), LONGEST_PART));
        }
        if parts.len() > self.limits.depth {
            let (depth, most) = (parts.len(), self.limits.depth);
            return Err(Refusal::TooDeep { path: shown(path), depth, most });
        }
        Ok(parts)
    }

    fn count(&mut self) -> Result<(), Refusal> {
        self.entries += 1;
        let most = self.limits.entries;
        if self.entries > most { Err(Refusal::TooManyEntries { most }) } else { Ok(()) }
    }

    /// Checks the declared size before anything is written.
    fn check_size(&self, entry: &Entry) -> Result<(), Refusal> {
        let Kind::File { bytes } = entry.kind else { return Ok(()) };
        let (most, total) = (self.limits.file_bytes, self.limits.total_bytes);
        if bytes > most {
            return Err(Refusal::FileTooBig { path: shown(&entry.path), bytes, most });
        }
        if self.bytes.saturating_add(bytes) > total {
            return Err(Refusal::TooManyBytes { most: total });
        }
        Ok(())
    }

    /// Opens the parent directory of an entry and creates missing parts of it.
    fn enter(&mut self, above: &[&[u8]], path: &[u8]) -> Result<(), Refusal> {
        let joined = above.join(&b'/');
        if above.is_empty() || self.last.as_ref().is_some_and(|(last, _)| *last == joined) {
            return Ok(());
        }
        let opened = match self.open_beneath(&joined) {
            Ok(directory) => directory,
            Err(Errno::NOENT | Errno::NOTDIR) => self.make_above(above, path)?,
            Err(Errno::LOOP) => return Err(Refusal::ThroughLink { path: shown(path) }),
            Err(errno) => return Err(failed("open", path, errno)),
        };
        self.last = Some((joined, opened));
        Ok(())
    }

    /// The directory that `enter` opened.
    fn parent(&self, above: &[&[u8]]) -> BorrowedFd<'_> {
        match &self.last {
            Some((_, directory)) if !above.is_empty() => directory.as_fd(),
            _ => self.root.as_fd(),
        }
    }

    fn open_beneath(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        openat2(&self.root, path, DIRECTORY, Mode::empty(), NO_ESCAPE)
    }

    fn make_above(&mut self, above: &[&[u8]], path: &[u8]) -> Result<OwnedFd, Refusal> {
        let mut here = self.root.try_clone().map_err(|error| failed("open", path, error))?;
        for name in above {
            let there = openat2(&here, *name, DIRECTORY, Mode::empty(), NO_ESCAPE);
            here = match there {
                Ok(there) => there,
                Err(Errno::LOOP) => return Err(Refusal::ThroughLink { path: shown(path) }),
                Err(Errno::NOENT | Errno::NOTDIR) => {
                    let found = stat(here.as_fd(), name, path)?;
                    if found.is_some_and(|found| !is_whiteout(&found)) {
                        return Err(Refusal::ThroughFile { path: shown(path) });
                    }
                    self.count()?;
                    make_directory(here.as_fd(), name, path)?
                }
                Err(errno) => return Err(failed("open", path, errno)),
            };
        }
        Ok(here)
    }

    fn link(&mut self, above: &[&[u8]], name: &[u8], target: &[u8], path: &[u8]) -> Result<(), Refusal> {
        let missing = || Refusal::NoLinkTarget { path: shown(path), target: shown(target) };
        let parts = self.parts(target)?;
        let (target_name, target_above) = parts.split_last().ok_or_else(missing)?;
        let joined = target_above.join(&b'/');
        let target_parent =
            if joined.is_empty() { self.open_beneath(b".") } else { self.open_beneath(&joined) };
        let target_parent = target_parent.map_err(|errno| match errno {
            Errno::LOOP => Refusal::ThroughLink { path: shown(target) },
            _ => missing(),
        })?;
        let found = stat(target_parent.as_fd(), target_name, target)?.ok_or_else(missing)?;
        if !matches!(file_type(&found), FileType::RegularFile | FileType::Symlink) {
            return Err(Refusal::BadLinkTarget { path: shown(path), target: shown(target) });
        }
        let parent = self.parent(above);
        // A hard link to itself exists already; replacing it would delete the only copy.
        let same = stat(parent, name, path)?
            .is_some_and(|old| (old.st_dev, old.st_ino) == (found.st_dev, found.st_ino));
        if same {
            return Ok(());
        }
        remove_existing(parent, name, path)?;
        linkat(&target_parent, *target_name, parent, name, AtFlags::empty()).doing("link", path)
    }

    /// Stores a whiteout in overlayfs form: a character device 0:0, which needs no privilege, or the opaque attribute on
    /// a directory that hides the one below it.
    fn add_whiteout(&mut self, above: &[&[u8]], whiteout: Whiteout<'_>, path: &[u8]) -> Result<(), Refusal> {
        if whiteout == Whiteout::Opaque && above.is_empty() {
            self.hides_all_below = true;
            return Ok(());
        }
        self.enter(above, path)?;
        let parent = self.parent(above);
        let name = match whiteout {
            Whiteout::Opaque => return mark_opaque(parent, path),
            Whiteout::Entry(name) => name,
            Whiteout::Ignored => return Ok(()),
        };
        let must_be_directory = above.is_empty() && DIRECTORIES.iter().any(|(place, _)| *place == name);
        match stat(parent, name, path)? {
            // This layer has its own directory of that name: hide only what lower layers have in it.
            Some(found) if file_type(&found) == FileType::Directory => {
                let directory =
                    openat2(parent, name, DIRECTORY, Mode::empty(), NO_ESCAPE).doing("open", path)?;
                mark_opaque(directory.as_fd(), path)
            }
            Some(_) => Ok(()),
            None if must_be_directory => {
                let directory = make_directory(parent, name, path)?;
                mark_opaque(directory.as_fd(), path)
            }
            None => mknodat(parent, name, FileType::CharacterDevice, Mode::empty(), makedev(0, 0))
                .doing("white out", path),
        }
    }

    fn owner(&self, entry: &Entry) -> Option<(Uid, Gid)> {
        let inside =
            |id: u64| if id > LARGEST_ID { OVERFLOW_ID } else { u32::try_from(id).unwrap_or(OVERFLOW_ID) };
        match self.ownership {
            Ownership::Kept => Some((Uid::from_raw(inside(entry.uid)), Gid::from_raw(inside(entry.gid)))),
            Ownership::Flattened => None,
        }
    }

    fn set_metadata(&self, file: BorrowedFd<'_>, entry: &Entry) -> Result<(), Refusal> {
        if let Some((uid, gid)) = self.owner(entry) {
            fchown(file, Some(uid), Some(gid)).doing("give away", &entry.path)?;
        }
        fchmod(file, Mode::from_raw_mode(entry.mode & KEPT_MODE)).doing("set the mode of", &entry.path)?;
        futimens(file, &times(entry)).doing("set the time of", &entry.path)
    }

    fn set_link_metadata(&self, parent: BorrowedFd<'_>, name: &[u8], entry: &Entry) -> Result<(), Refusal> {
        if let Some((uid, gid)) = self.owner(entry) {
            chownat(parent, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
                .doing("give away", &entry.path)?;
        }
        utimensat(parent, name, &times(entry), AtFlags::SYMLINK_NOFOLLOW)
            .doing("set the time of", &entry.path)
    }
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const NO_ESCAPE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

trait Doing<T> {
    fn doing(self, doing: &'static str, path: &[u8]) -> Result<T, Refusal>;
}

impl<T> Doing<T> for Result<T, Errno> {
    fn doing(self, doing: &'static str, path: &[u8]) -> Result<T, Refusal> {
        self.map_err(|errno| failed(doing, path, errno))
    }
}

fn failed(doing: &str, path: &[u8], error: impl Into<std::io::Error>) -> Refusal {
    Refusal::Failed { doing: doing.to_owned(), path: shown(path), why: error.into().to_string() }
}

fn times(entry: &Entry) -> Timestamps {
    let seconds = i64::try_from(entry.modified.min(MAX_TIME)).unwrap_or(0);
    let time = Timespec { tv_sec: seconds, tv_nsec: 0 };
    Timestamps { last_access: time, last_modification: time }
}

fn stat(parent: BorrowedFd<'_>, name: &[u8], path: &[u8]) -> Result<Option<Stat>, Refusal> {
    match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(failed("look at", path, errno)),
    }
}

fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Whether it is a whiteout: this module creates no other character devices.
fn is_whiteout(stat: &Stat) -> bool {
    file_type(stat) == FileType::CharacterDevice
}

/// Removes an existing entry of that name: the later one wins. A directory is never replaced.
fn remove_existing(parent: BorrowedFd<'_>, name: &[u8], path: &[u8]) -> Result<(), Refusal> {
    match stat(parent, name, path)? {
        None => Ok(()),
        Some(found) if file_type(&found) == FileType::Directory => {
            Err(Refusal::AlreadyDirectory { path: shown(path) })
        }
        Some(_) => unlinkat(parent, name, AtFlags::empty()).doing("replace", path),
    }
}

/// Opens the directory and creates it if missing. One that replaces a whiteout is made opaque.
fn make_directory(parent: BorrowedFd<'_>, name: &[u8], path: &[u8]) -> Result<OwnedFd, Refusal> {
    let found = stat(parent, name, path)?;
    let there = found.as_ref().is_some_and(|found| file_type(found) == FileType::Directory);
    if !there {
        remove_existing(parent, name, path)?;
        mkdirat(parent, name, Mode::from_raw_mode(IMPLIED_DIRECTORY_MODE)).doing("make", path)?;
    }
    let directory = openat2(parent, name, DIRECTORY, Mode::empty(), NO_ESCAPE).doing("open", path)?;
    if found.is_some_and(|found| is_whiteout(&found)) {
        mark_opaque(directory.as_fd(), path)?;
    }
    Ok(directory)
}

/// Sets the opaque attribute, read by overlayfs mounted with `userxattr`.
fn mark_opaque(directory: BorrowedFd<'_>, path: &[u8]) -> Result<(), Refusal> {
    fsetxattr(directory, c"user.overlay.opaque", b"y", XattrFlags::empty()).doing("mark", path)
}
