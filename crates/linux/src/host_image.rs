//! The image `host`: this host's own programs read-only, with a small `/etc` of its own and nothing secret.
//! The little that is not shared with the host is one layer, made once and again when the host has changed.

use std::collections::HashSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use pinfold_keeper::world::Layer;
use rustix::process::geteuid;

use crate::disk::remove_tree;
use crate::places::make;

/// What every root has, besides what is mounted into it.
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
/// Where programs look for each other; on merged systems they are links into `/usr`.
const PROGRAMS: [&str; 6] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];
const FILES: [(&str, &str); 6] = [
    ("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"),
    ("etc/group", "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n"),
    ("etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"),
    ("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
    ("etc/resolv.conf", ""),
    ("etc/profile", "export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"),
];
/// Of the host's `/etc`, what programs cannot do without and nobody minds.
const COPIED: [&str; 3] = ["etc/ld.so.cache", "etc/ld.so.conf", "etc/localtime"];
const SHARED: [&str; 4] = ["/usr", "/etc/alternatives", "/etc/ssl/certs", "/etc/ca-certificates"];

/// The name that stands for this host itself.
pub const HOST_IMAGE: &str = "host";

/// What is under a body's own storage.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    pub(crate) layers: Vec<Layer>,
    /// Directories of the host that are seen inside, read-only.
    pub(crate) shared: Vec<PathBuf>,
}

impl Image {
    /// What this host has to share, and the layer for the rest below `layers`.
    pub(crate) fn of_host(layers: &Path) -> io::Result<Self> {
        let programs = PROGRAMS.iter().map(|name| Path::new("/").join(name));
        let own = programs.filter(|path| path.is_dir() && !path.is_symlink());
        let shared = SHARED.iter().map(PathBuf::from).filter(|path| path.is_dir()).chain(own);
        let shared: Vec<_> = shared.collect();
        let path = layers.join(format!("host-{:016x}", state_of_host(&shared)));
        if !path.exists() {
            settle(&path, layers, &shared)?;
        }
        // As root inside is root's on disk: there is no program in it that could give rights to anybody.
        let layer = Layer { path, first_id: geteuid().is_root().then_some(0) };
        Ok(Self { layers: vec![layer], shared })
    }

    /// An image of its own, with nothing of the host. An overlay takes no layer twice; the upper one of two that are
    /// equal shows and hides by itself all that both do.
    pub(crate) fn of_layers(mut layers: Vec<Layer>) -> Self {
        let mut seen = HashSet::new();
        layers.retain(|layer| seen.insert(layer.path.clone()));
        Self { layers, shared: Vec::new() }
    }
}

/// Changes when anything does that the layer is made from.
fn state_of_host(shared: &[PathBuf]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (DIRECTORIES, FILES, shared).hash(&mut hasher);
    for name in COPIED {
        if let Ok(found) = fs::metadata(Path::new("/").join(name)) {
            (name, found.ino(), found.len(), found.mtime(), found.mtime_nsec()).hash(&mut hasher);
        }
    }
    for name in PROGRAMS {
        fs::read_link(Path::new("/").join(name)).ok().hash(&mut hasher);
    }
    hasher.finish()
}

/// Under a name of its own until it is whole: others may make the same one at the same time.
fn settle(path: &Path, layers: &Path, shared: &[PathBuf]) -> io::Result<()> {
    let unfinished = layers.join(format!(".{}-{:?}", std::process::id(), std::thread::current().id()));
    remove_tree(&unfinished)?;
    make(&unfinished, 0o755)?;
    furnish(&unfinished, shared)?;
    match fs::rename(&unfinished, path) {
        Ok(()) => Ok(()),
        // The other one is as good.
        Err(_) if path.exists() => remove_tree(&unfinished).map(|_| ()),
        Err(error) => Err(error),
    }
}

fn furnish(root: &Path, shared: &[PathBuf]) -> io::Result<()> {
    for (directory, mode) in DIRECTORIES {
        make(&root.join(directory), mode)?;
    }
    // Where the host's own are put: in the layer, so that no body has to make them.
    for directory in shared {
        fs::create_dir_all(root.join(directory.strip_prefix("/").unwrap_or(directory)))?;
    }
    for (file, text) in FILES {
        fs::write(root.join(file), text)?;
    }
    for file in COPIED {
        match fs::copy(Path::new("/").join(file), root.join(file)) {
            Ok(_) => {}
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
