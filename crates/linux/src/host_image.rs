//! The image `host`: this host's own programs read-only, with a small `/etc` of its own and nothing secret.
//! It has no layers: the little that it needs is made anew in every body's own root, with the body's own ids.

use std::fs;
use std::io;
use std::os::unix::fs::{lchown, symlink};
use std::path::{Path, PathBuf};

use pinfold_keeper::wire::IdMap;

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

#[derive(Debug, Clone)]
pub(crate) struct HostImage {
    pub(crate) shared: Vec<PathBuf>,
}

impl HostImage {
    /// What this host has to share.
    pub(crate) fn find() -> Self {
        let programs = PROGRAMS.iter().map(|name| Path::new("/").join(name));
        let own = programs.filter(|path| path.is_dir() && !path.is_symlink());
        let shared = SHARED.iter().map(PathBuf::from).filter(|path| path.is_dir()).chain(own);
        Self { shared: shared.collect() }
    }

    /// Puts into an empty root what is not mounted into it.
    pub(crate) fn furnish(&self, root: &Path, ids: IdMap) -> io::Result<()> {
        let own = |path: &Path| lchown(path, Some(ids.uid), Some(ids.gid));
        for (directory, mode) in DIRECTORIES {
            let path = root.join(directory);
            make(&path, mode)?;
            own(&path)?;
        }
        for (file, text) in FILES {
            let path = root.join(file);
            fs::write(&path, text)?;
            own(&path)?;
        }
        for file in COPIED {
            let path = root.join(file);
            match fs::copy(Path::new("/").join(file), &path) {
                Ok(_) => own(&path)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        self.link_programs(root)
    }

    fn link_programs(&self, root: &Path) -> io::Result<()> {
        for name in PROGRAMS {
            if let Ok(target) = fs::read_link(Path::new("/").join(name)) {
                match symlink(target, root.join(name)) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}
