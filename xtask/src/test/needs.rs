//! Programs that the tests need beside Rust, and their installation. Nothing here fails the run: a test whose tool
//! is missing skips itself and is counted.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cargo;

/// A program that tests run, and the Debian package that has it.
struct Need {
    program: &'static str,
    package: &'static str,
}

const NEEDS: &[Need] = &[
    Need { program: "strace", package: "strace" },
    Need { program: "systemd-analyze", package: "systemd" },
    // A terminal emulator for tests of interactive commands.
    Need { program: "tmux", package: "tmux" },
    // A complete root file system for images.
    Need { program: "busybox", package: "busybox-static" },
    // A mail server.
    Need { program: "aiosmtpd", package: "python3-aiosmtpd" },
];
/// What the emulated machine with cgroup v2 is built with.
const MACHINE_NEEDS: &[Need] = &[
    Need { program: "qemu-system-x86_64", package: "qemu-system-x86" },
    Need { program: "cpio", package: "cpio" },
    Need { program: "mke2fs", package: "e2fsprogs" },
    Need { program: "perl", package: "perl-base" },
];

/// Cargo's own commands that a minimal installation of Rust leaves out.
const COMPONENTS: &[(&str, &str)] = &[("fmt", "rustfmt"), ("clippy", "clippy")];

pub(super) fn install_what_is_missing(all: bool) {
    install(NEEDS);
    if all {
        install_for_the_machine();
        install_components();
    }
}

pub(super) fn install_for_the_machine() {
    install(MACHINE_NEEDS);
}

/// The packages that are still not there.
pub(super) fn missing_for_the_machine() -> Vec<&'static str> {
    missing_packages(MACHINE_NEEDS, is_on_path)
}

fn install(needs: &[Need]) {
    let packages = missing_packages(needs, is_on_path);
    if !packages.is_empty() {
        install_packages(&packages);
    }
}

fn missing_packages(needs: &[Need], is_installed: impl Fn(&str) -> bool) -> Vec<&'static str> {
    needs.iter().filter(|need| !is_installed(need.program)).map(|need| need.package).collect()
}

fn install_packages(packages: &[&str]) {
    let command = "apt-get install -y --no-install-recommends";
    let names = packages.join(" ");
    if !is_root() || !is_on_path("apt-get") {
        println!("missing for some tests, which will be skipped: {names} (as root: {command} {names})");
        return;
    }
    let install = || apt_get(&[&["install", "-y", "--no-install-recommends"], packages].concat());
    // Package lists may never have been fetched on this machine.
    let installed = install() || (apt_get(&["update"]) && install());
    if !installed {
        println!("could not install {names}; the tests that need it will be skipped");
    }
}

fn apt_get(arguments: &[&str]) -> bool {
    println!("apt-get {}", arguments.join(" "));
    let status = Command::new("apt-get")
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

fn install_components() {
    for (subcommand, component) in COMPONENTS {
        if has_cargo(subcommand) {
            continue;
        }
        println!("rustup component add {component}");
        let added = Command::new("rustup").args(["component", "add", component]).status();
        if !added.is_ok_and(|status| status.success()) {
            println!("could not install {component}: `cargo {subcommand}` will fail");
        }
    }
}

/// Whether cargo has this subcommand.
pub(super) fn has_cargo(subcommand: &str) -> bool {
    let status =
        cargo::command(&[subcommand, "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// The owner of our entry in /proc is the user we act as.
fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|entry| entry.uid() == 0)
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| is_executable(&directory.join(program)))
}

fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|entry| entry.is_file() && entry.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_is_installed() {
        let needs = [
            Need { program: "strace", package: "strace" },
            Need { program: "initdb", package: "postgresql" },
        ];

        let packages = missing_packages(&needs, |program| program == "strace");

        assert_eq!(packages, ["postgresql"]);
    }

    #[test]
    fn a_program_is_found_by_looking_at_the_path() {
        assert!(is_on_path("sh"));
        assert!(!is_on_path("no-such-program-on-any-machine"));
    }
}
