//! The image `host`: the programs of this host read-only, with a small `/etc` of its own and nothing secret. Files
//! that are not shared with the host form one layer, rebuilt when the host has changed.

use std::collections::HashSet;
use std::fs::{self, Metadata};
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
/// Files and directories of the host's `/etc` that programs need and that are not secret: `su` needs the two of PAM. Copied,
/// because each directory that is shared costs every sandbox a filesystem.
const COPIED: [&str; 21] = [
    "etc/alternatives",
    "etc/ca-certificates",
    "etc/debian_version",
    "etc/ethertypes",
    "etc/gai.conf",
    "etc/host.conf",
    "etc/ld.so.cache",
    "etc/ld.so.conf",
    "etc/ld.so.conf.d",
    "etc/localtime",
    "etc/login.defs",
    "etc/mime.types",
    "etc/os-release",
    "etc/pam.d",
    "etc/protocols",
    "etc/security",
    "etc/services",
    "etc/shells",
    "etc/ssl/certs",
    "etc/ssl/openssl.cnf",
    "etc/timezone",
];
/// Java reads `/etc/java-VERSION`.
const JAVA_PREFIX: &str = "java-";
const SHARED: &str = "/usr";

/// Name of the image that is this host itself.
pub const HOST_IMAGE: &str = "host";

/// The read-only layers below the storage of an instance.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    pub(crate) layers: Vec<RootLayer>,
    /// Host directories that are mounted read-only.
    pub(crate) shared: Vec<PathBuf>,
}

impl Image {
    /// Builds the host image, with its own layer below `layers`.
    pub(crate) fn of_host(layers: &Path) -> io::Result<Self> {
        let programs = PROGRAMS.iter().map(|name| Path::new("/").join(name));
        let own = programs.filter(|path| path.is_dir() && !path.is_symlink());
        let shared: Vec<_> = [PathBuf::from(SHARED)].into_iter().chain(own).collect();
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
    for name in copied_names() {
        if let Ok(found) = fs::metadata(Path::new("/").join(&name)) {
            (name, found.ino(), found.len(), found.mtime(), found.mtime_nsec()).hash(&mut hasher);
        }
    }
    for name in PROGRAMS {
        fs::read_link(Path::new("/").join(name)).ok().hash(&mut hasher);
    }
    hasher.finish()
}

/// Built under a temporary name and renamed when complete: another process may build the same layer at the same time.
fn build_layer(path: &Path, layers: &Path, shared: &[PathBuf]) -> io::Result<()> {
    let thread = std::thread::current().id();
    let unfinished = layers.join(format!("{}-{thread:?}", pinfold_private_files::temporary_name(".host")?));
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

/// Copies what every user of the host may read. Root inside owns the copy, so anything else must not be in it.
fn copy_public(from: &Path, to: &Path, found: &Metadata) -> io::Result<()> {
    if found.is_symlink() {
        return symlink(fs::read_link(from)?, to);
    }
    if found.is_dir() && found.mode() & 0o5 == 0o5 {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            // Most alternatives are manual pages, which would make the layer twice as slow to build.
            if entry.path().extension().is_some_and(|extension| extension == "gz") {
                continue;
            }
            copy_public(&entry.path(), &to.join(entry.file_name()), &entry.metadata()?)?;
        }
    } else if found.is_file() && found.mode() & 0o4 != 0 {
        fs::write(to, fs::read(from)?)?;
    }
    Ok(())
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
    for name in copied_names() {
        let (from, to) = (Path::new("/").join(&name), root.join(&name));
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        match fs::metadata(&from) {
            Ok(found) => copy_public(&from, &to, &found)?,
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

/// What is copied from the host, without the leading slash.
fn copied_names() -> Vec<PathBuf> {
    let in_etc = fs::read_dir("/etc").into_iter().flatten().flatten().map(|entry| entry.file_name());
    let java = in_etc.filter(|name| name.to_string_lossy().starts_with(JAVA_PREFIX));
    let mut names: Vec<_> =
        COPIED.iter().map(PathBuf::from).chain(java.map(|name| Path::new("etc").join(name))).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn copied_directory_has_links_and_public_files_but_no_private_ones_or_manuals() {
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (directory.path().join("from"), directory.path().join("to"));
        fs::create_dir_all(from.join("closed")).unwrap();
        for (name, mode) in [("public", 0o644), ("private", 0o600), ("closed/inner", 0o644)] {
            fs::write(from.join(name), name).unwrap();
            fs::set_permissions(from.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::set_permissions(from.join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
        symlink("/nowhere", from.join("link")).unwrap();
        symlink("/nowhere", from.join("manual.1.gz")).unwrap();

        copy_public(&from, &to, &fs::metadata(&from).unwrap()).unwrap();

        let mut found: Vec<_> = fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        found.sort();
        assert_eq!(found, ["link", "public"]);
        assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("/nowhere"));
    }
}
