//! The image `host`: the programs of this host read-only, with a small `/etc` of its own and nothing secret. Files
//! that are not shared with the host form one layer, rebuilt when the host has changed.

use std::collections::HashSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use pinfold_keeper_wire::RootLayer;
use rustix::process::geteuid;

use crate::disk::remove_tree;
use crate::paths::make_directory;

/// Directories of every root file system, besides its mounts.
const DIRECTORIES: [(&str, u32); 14] = [
    ("dev", 0o755),
    ("etc", 0o755),
    ("home", 0o755),
    ("opt", 0o755),
    ("proc", 0o555),
    ("root", 0o700),
    ("run", 0o755),
    ("sys", 0o555),
    ("tmp", 0o1777),
    ("usr", 0o755),
    ("var", 0o755),
    ("var/lib", 0o755),
    ("var/tmp", 0o1777),
    ("workspace", 0o755),
];
/// Program and library directories; on merged-usr systems they are symlinks into `/usr`.
const PROGRAMS: [&str; 6] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/// `*` in `passwd` means no password, and no `shadow` to look for one in.
const FILES: [(&str, &str); 6] = [
    ("etc/passwd", "root:*:0:0:root:/root:/bin/sh\nnobody:*:65534:65534:nobody:/:/usr/sbin/nologin\n"),
    ("etc/group", "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n"),
    ("etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"),
    ("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
    ("etc/resolv.conf", ""),
    ("etc/profile", "export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"),
];
/// Files of the host's `/etc` that programs need and that are not secret. One that not every user of the host may read
/// is left out.
const COPIED: [&str; 15] = [
    "etc/ld.so.cache",
    "etc/ld.so.conf",
    "etc/localtime",
    "etc/timezone",
    "etc/os-release",
    "etc/debian_version",
    "etc/protocols",
    "etc/services",
    "etc/ethertypes",
    "etc/host.conf",
    "etc/gai.conf",
    "etc/login.defs",
    "etc/shells",
    "etc/mime.types",
    "etc/ssl/openssl.cnf",
];
/// Directories of the host's `/etc` that are copied in the same way: `su` needs the two of PAM, the linker its own.
const COPIED_DIRECTORIES: [&str; 3] = ["etc/ld.so.conf.d", "etc/pam.d", "etc/security"];
/// Java reads `/etc/java-VERSION`.
const JAVA_PREFIX: &str = "java-";
/// Directories inside of a copied one; Java has three levels.
const DEEPEST: usize = 4;
const SHARED: [&str; 4] = ["/usr", "/etc/alternatives", "/etc/ssl/certs", "/etc/ca-certificates"];

/// Name of the image that is this host itself.
pub const HOST_IMAGE: &str = "host";

/// The read-only layers below the storage of an instance.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    pub(crate) layers: Vec<RootLayer>,
    /// Host directories bind-mounted read-only.
    pub(crate) shared: Vec<PathBuf>,
}

impl Image {
    /// Builds the host image, with its own layer below `layers`.
    pub(crate) fn of_host(layers: &Path) -> io::Result<Self> {
        let programs = PROGRAMS.iter().map(|name| Path::new("/").join(name));
        let own = programs.filter(|path| path.is_dir() && !path.is_symlink());
        let shared = SHARED.iter().map(PathBuf::from).filter(|path| path.is_dir()).chain(own);
        let shared: Vec<_> = shared.collect();
        let path = layers.join(format!("host-{:016x}", host_fingerprint(&shared)));
        if !path.exists() {
            build_layer(&path, layers, &shared)?;
        }
        // Root inside owns these files on disk: the layer holds no program that could grant privileges.
        let layer = RootLayer { path, first_id: geteuid().is_root().then_some(0) };
        Ok(Self { layers: vec![layer], shared })
    }

    /// An image without anything of the host. Overlayfs accepts no layer twice; of two equal layers the upper one
    /// already shows and hides everything.
    pub(crate) fn of_layers(mut layers: Vec<RootLayer>) -> Self {
        let mut seen = HashSet::new();
        layers.retain(|layer| seen.insert(layer.path.clone()));
        Self { layers, shared: Vec::new() }
    }
}

/// Hash of everything the layer is built from.
fn host_fingerprint(shared: &[PathBuf]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (DIRECTORIES, FILES, shared).hash(&mut hasher);
    for file in copied_files() {
        if let Ok(found) = fs::metadata(Path::new("/").join(&file)) {
            (file, found.ino(), found.len(), found.mtime(), found.mtime_nsec()).hash(&mut hasher);
        }
    }
    for name in PROGRAMS {
        fs::read_link(Path::new("/").join(name)).ok().hash(&mut hasher);
    }
    hasher.finish()
}

/// Built under a temporary name and renamed when complete: another process may build the same layer at the same time.
fn build_layer(path: &Path, layers: &Path, shared: &[PathBuf]) -> io::Result<()> {
    let unfinished = layers.join(format!(".{}-{:?}", std::process::id(), std::thread::current().id()));
    remove_tree(&unfinished)?;
    make_directory(&unfinished, 0o755)?;
    populate(&unfinished, shared)?;
    match fs::rename(&unfinished, path) {
        Ok(()) => Ok(()),
        // Another process was faster, with the same content.
        Err(_) if path.exists() => remove_tree(&unfinished).map(|_| ()),
        Err(error) => Err(error),
    }
}

fn populate(root: &Path, shared: &[PathBuf]) -> io::Result<()> {
    for (directory, mode) in DIRECTORIES {
        make_directory(&root.join(directory), mode)?;
    }
    // Mount points are part of the layer, so that no instance has to create them.
    for directory in shared {
        fs::create_dir_all(root.join(directory.strip_prefix("/").unwrap_or(directory)))?;
    }
    for (file, text) in FILES {
        fs::write(root.join(file), text)?;
    }
    for file in copied_files() {
        let to = root.join(&file);
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        match fs::copy(Path::new("/").join(&file), to) {
            Ok(_) => {}
            // Removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    for name in PROGRAMS {
        if let Ok(target) = fs::read_link(Path::new("/").join(name)) {
            symlink(target, root.join(name))?;
        }
    }
    Ok(())
}

/// Paths of the files to copy, without the leading slash: those that exist and that everyone may read.
fn copied_files() -> Vec<PathBuf> {
    let java = fs::read_dir("/etc").into_iter().flatten().flatten().map(|entry| entry.file_name());
    let java = java.filter(|name| name.to_string_lossy().starts_with(JAVA_PREFIX));
    let directories =
        COPIED_DIRECTORIES.iter().map(PathBuf::from).chain(java.map(|name| Path::new("etc").join(name)));
    let mut files: Vec<_> = COPIED.iter().map(PathBuf::from).filter(|file| is_public_file(file)).collect();
    directories.for_each(|directory| add_files(&directory, DEEPEST, &mut files));
    files.sort();
    files
}

fn is_public_file(path: &Path) -> bool {
    fs::metadata(Path::new("/").join(path)).is_ok_and(|found| found.is_file() && found.mode() & 0o004 != 0)
}

/// Adds the files of a directory. Links to directories are not followed.
fn add_files(directory: &Path, depth: usize, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(Path::new("/").join(directory)).into_iter().flatten().flatten() {
        let path = directory.join(entry.file_name());
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth > 0 => add_files(&path, depth - 1, files),
            Ok(kind) if !kind.is_dir() && is_public_file(&path) => files.push(path),
            Ok(_) | Err(_) => {}
        }
    }
}
