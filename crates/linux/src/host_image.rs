//! The image `host`: this host's own programs read-only, with a small `/etc` of its own and nothing secret.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

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
    pub(crate) layer: PathBuf,
    pub(crate) shared: Vec<PathBuf>,
}

impl HostImage {
    /// Makes the layer, or finds it made.
    pub(crate) fn prepare(images: &Path) -> io::Result<Self> {
        let home = images.join("host");
        let layer = home.join("layer");
        let mut shared: Vec<_> = SHARED.iter().map(PathBuf::from).filter(|path| path.is_dir()).collect();
        make(&home, 0o711)?;
        if !home.join("complete").exists() {
            make(&layer, 0o755)?;
            furnish(&layer)?;
            fs::write(home.join("complete"), "")?;
        }
        let own = PROGRAMS.iter().map(|name| Path::new("/").join(name));
        shared.extend(own.filter(|path| path.is_dir() && !path.is_symlink()));
        Ok(Self { layer, shared })
    }
}

fn furnish(layer: &Path) -> io::Result<()> {
    for (directory, mode) in DIRECTORIES {
        make(&layer.join(directory), mode)?;
    }
    for (file, text) in FILES {
        fs::write(layer.join(file), text)?;
    }
    for file in COPIED {
        match fs::copy(Path::new("/").join(file), layer.join(file)) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    for name in PROGRAMS {
        if let Ok(target) = fs::read_link(Path::new("/").join(name)) {
            match symlink(target, layer.join(name)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}
