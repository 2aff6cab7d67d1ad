//! Builds a machine's initramfs: our programs, some of this host's with their libraries, and the scripts that run
//! them.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::kernel::{Kernel, output_of};

const PROGRAM_DIRECTORIES: [&str; 4] = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"];
const DIRECTORIES: [(&str, u32); 10] = [
    ("dev", 0o755),
    ("etc/alternatives", 0o755),
    ("etc/ca-certificates", 0o755),
    ("etc/ssl/certs", 0o755),
    ("proc", 0o755),
    ("root", 0o700),
    ("run", 0o755),
    ("sys", 0o755),
    ("tmp", 0o755),
    ("var", 0o755),
];
const LINKS: [(&str, &str); 4] =
    [("bin", "usr/bin"), ("sbin", "usr/sbin"), ("lib", "usr/lib"), ("lib64", "usr/lib64")];
const FILES: [(&str, &str); 2] = [
    ("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nuser:x:54321:54321::/var/user:/bin/sh\n"),
    ("etc/group", "root:x:0:\ntty:x:5:\nuser:x:54321:\n"),
];

pub(super) fn make(
    place: &Path,
    kernel: &Kernel,
    host_programs: &[&str],
    fill: impl FnOnce(&mut Root) -> Result<()>,
) -> Result<PathBuf> {
    let first = place.join("image");
    match fs::remove_dir_all(&first) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => fs::create_dir(&first)?,
    }
    let mut root = Root { path: first.join("machine"), libraries: BTreeSet::new() };
    add_base_files(&mut root, kernel, host_programs)?;
    fill(&mut root)?;

    fs::create_dir(first.join("new"))?;
    fs::create_dir(first.join("bin"))?;
    fs::copy(first.join("machine/usr/sbin/busybox"), first.join("bin/busybox"))?;
    write_script(&first.join("init"), include_str!("init.sh"))?;
    let archive = place.join("image.cpio");
    let pack = format!("find . | cpio --quiet -o -H newc -R 0:0 > '{}'", archive.display());
    output_of("sh", &["-c", &pack], &first)?;
    Ok(archive)
}

/// Adds what every machine has.
fn add_base_files(root: &mut Root, kernel: &Kernel, host_programs: &[&str]) -> Result<()> {
    for (directory, mode) in DIRECTORIES {
        let path = root.path.join(directory);
        fs::create_dir_all(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
    }
    for (link, target) in LINKS {
        fs::create_dir_all(root.path.join(target))?;
        symlink(target, root.path.join(link))?;
    }
    for (file, text) in FILES {
        fs::write(root.path.join(file), text)?;
    }

    let modules = root.path.join("modules");
    fs::create_dir(&modules)?;
    for module in &kernel.modules {
        let name = module.file_name().context("a module has a name")?;
        fs::copy(module, modules.join(name)).with_context(|| format!("no `{}`", module.display()))?;
    }

    for name in host_programs {
        let program = on_this_host(name)?;
        root.add(&program, &program)?;
    }
    root.add(&on_this_host("busybox")?, Path::new("/usr/sbin/busybox"))?;
    root.add_script("usr/sbin/up", include_str!("up.sh"))
}

fn on_this_host(name: &str) -> Result<PathBuf> {
    let mut places = PROGRAM_DIRECTORIES.iter().map(|place| Path::new(place).join(name));
    places.find(|path| path.exists()).with_context(|| format!("this host has no `{name}`"))
}

fn write_script(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// The machine's root directory under construction.
pub(in crate::test) struct Root {
    path: PathBuf,
    libraries: BTreeSet<PathBuf>,
}

impl Root {
    /// Adds process 1. It runs after the steps of `up`.
    pub(in crate::test) fn add_first_program(&mut self, text: &str) -> Result<()> {
        self.add_script("usr/sbin/guest", text)
    }

    fn add_script(&mut self, at: &str, text: &str) -> Result<()> {
        write_script(&self.path.join(at), text)
    }

    pub(in crate::test) fn add_text(&mut self, at: &str, text: &str) -> Result<()> {
        Ok(fs::write(self.path.join(at), text)?)
    }

    fn add(&mut self, program: &Path, at: &Path) -> Result<()> {
        let to = self.target_path(at)?;
        fs::copy(program, to).with_context(|| format!("could not copy `{}`", program.display()))?;
        self.add_libraries_of(program)
    }

    /// Strips debug information, which the machine does not need.
    pub(in crate::test) fn add_stripped(&mut self, program: &Path, at: &Path) -> Result<()> {
        let to = self.target_path(at)?;
        let (from, into) = (program.to_string_lossy(), to.to_string_lossy());
        output_of("strip", &["--strip-debug", "-o", &into, &from], Path::new("/"))?;
        self.add_libraries_of(program)
    }

    /// For a script or a static program `ldd` names no library.
    fn add_libraries_of(&mut self, program: &Path) -> Result<()> {
        let program = program.to_string_lossy();
        let Ok(list) = output_of("ldd", &[&program], Path::new("/")) else { return Ok(()) };
        for library in libraries_in(&list) {
            if self.libraries.insert(library.clone()) {
                fs::copy(&library, self.target_path(&library)?)
                    .with_context(|| format!("could not copy `{}`", library.display()))?;
            }
        }
        Ok(())
    }

    /// On the machine all programs and libraries are in `/usr`.
    fn target_path(&self, path: &Path) -> Result<PathBuf> {
        let inside = path.strip_prefix("/").with_context(|| format!("`{}`", path.display()))?;
        let is_linked = LINKS.iter().any(|(link, _)| inside.starts_with(link));
        let place = if is_linked { self.path.join("usr").join(inside) } else { self.path.join(inside) };
        let Some(parent) = place.parent() else { bail!("`{}` is no place", place.display()) };
        fs::create_dir_all(parent)?;
        Ok(place)
    }
}

/// Reads lines such as `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x…)` and `/lib64/ld-linux.so.2 (0x…)`.
fn libraries_in(list: &str) -> Vec<PathBuf> {
    let words = list.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    words.filter(|word| !word.ends_with(':')).map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_read_from_what_ldd_says() {
        let list = "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x2)\n\t/lib64/ld.so.2 (0x3)\n";

        assert_eq!(libraries_in(list), ["/lib/x/libc.so.6", "/lib64/ld.so.2"].map(PathBuf::from));
        assert_eq!(libraries_in("\tstatically linked\n"), Vec::<PathBuf>::new());
    }
}
