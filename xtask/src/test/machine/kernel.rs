//! Debian's cloud kernel: downloaded and unpacked, not installed. A kernel unpacked earlier is used again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Metapackage that depends on the newest kernel.
const NEWEST: &str = "linux-image-cloud-amd64";
/// Kernel modules to load, in this order. None needs another.
const MODULES: [&str; 2] = ["kernel/fs/overlayfs/overlay.ko", "kernel/drivers/block/loop.ko"];

pub(super) struct Kernel {
    pub(super) image: PathBuf,
    pub(super) modules: Vec<PathBuf>,
}

pub(super) fn get(place: &Path) -> Result<Kernel> {
    let ready = place.join("kernel");
    if !ready.exists() {
        let unfinished = place.join("kernel.unfinished");
        match fs::remove_dir_all(&unfinished) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => fs::create_dir(&unfinished)?,
        }
        unpack(&unfinished)?;
        fs::rename(&unfinished, &ready)?;
    }
    find(&ready).with_context(|| format!("`{}` holds no kernel", ready.display()))
}

fn unpack(into: &Path) -> Result<()> {
    let package = match newest() {
        Ok(package) => package,
        // Package lists may never have been fetched on this machine.
        Err(_) => {
            output_of("apt-get", &["update"], into)?;
            newest()?
        }
    };
    println!("apt-get download {package}");
    output_of("apt-get", &["download", &package], into)?;
    let archive = only_entry(into, |name| name.ends_with(".deb"))?;
    output_of("dpkg-deb", &["-x", &archive.to_string_lossy(), "."], into)?;
    fs::remove_file(archive)?;
    Ok(())
}

fn newest() -> Result<String> {
    let depends = output_of("apt-cache", &["depends", NEWEST], Path::new("/"))?;
    named_by(&depends).with_context(|| format!("`{NEWEST}` depends on no kernel"))
}

/// Reads a line such as `  Depends: linux-image-6.1.0-48-cloud-amd64`.
fn named_by(depends: &str) -> Option<String> {
    let named = depends.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    named.map(str::to_owned).find(|name| name.starts_with("linux-image-"))
}

fn find(unpacked: &Path) -> Result<Kernel> {
    let image = only_entry(&unpacked.join("boot"), |name| name.starts_with("vmlinuz-"))?;
    let modules = only_entry(&unpacked.join("lib/modules"), |_| true)?;
    Ok(Kernel { image, modules: MODULES.iter().map(|module| modules.join(module)).collect() })
}

fn only_entry(directory: &Path, wanted: impl Fn(&str) -> bool) -> Result<PathBuf> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if wanted(&entry.file_name().to_string_lossy()) {
            return Ok(entry.path());
        }
    }
    bail!("`{}` does not hold what is looked for", directory.display())
}

/// A program's output. A failure is an error.
pub(in crate::test) fn output_of(program: &str, arguments: &[&str], directory: &Path) -> Result<String> {
    let failed = || format!("could not run `{program} {}`", arguments.join(" "));
    let output = Command::new(program)
        .args(arguments)
        .current_dir(directory)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .with_context(failed)?;
    if !output.status.success() {
        bail!("{}: {}", failed(), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_named_by_the_package_that_depends_on_it() {
        let depends = "linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-48-cloud-amd64\n";

        assert_eq!(named_by(depends).as_deref(), Some("linux-image-6.1.0-48-cloud-amd64"));
        assert_eq!(named_by("linux-image-cloud-amd64\n"), None);
    }
}
