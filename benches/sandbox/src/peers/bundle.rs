//! The same root as an OCI bundle: the host's `/usr` read-only in a small tree.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{LINKS, SHARED};
use crate::host::LIMITS;
use crate::run_timing::COMMAND;

const DIRECTORIES: [&str; 8] = ["dev", "etc", "proc", "root", "sys", "tmp", "usr", "workspace"];

/// The directory tree, without mounts.
pub(super) fn skeleton(root: &Path) -> Result<()> {
    for directory in DIRECTORIES {
        fs::create_dir_all(root.join(directory)).context("could not make a root")?;
    }
    for link in LINKS {
        let own = root.join(link);
        if let (Ok(target), false) = (fs::read_link(Path::new("/").join(link)), own.is_symlink()) {
            symlink(target, own).context("could not make a root")?;
        }
    }
    Ok(())
}

pub(super) fn write(directory: &Path) -> Result<PathBuf> {
    let bundle = directory.join("bundle");
    skeleton(&bundle.join("rootfs"))?;
    fs::write(bundle.join("config.json"), config().to_string()).context("could not write a bundle")?;
    Ok(bundle)
}

fn config() -> Value {
    let namespaces = ["pid", "network", "ipc", "uts", "mount", "cgroup"].map(|kind| json!({ "type": kind }));
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "terminal": false,
            "user": { "uid": 0, "gid": 0 },
            "args": COMMAND,
            "env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"],
            "cwd": "/workspace",
            "noNewPrivileges": true,
        },
        "root": { "path": "rootfs" },
        "hostname": "bench",
        "mounts": mounts(),
        "linux": {
            "namespaces": namespaces,
            "resources": {
                "memory": { "limit": LIMITS.memory_mb.unwrap_or(0) << 20 },
                "pids": { "limit": LIMITS.processes },
                "cpu": { "quota": u64::from(LIMITS.cpu_millis.unwrap_or(0)) * 100, "period": 100_000 },
            },
            "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/scsi", "/sys/firmware"],
            "readonlyPaths": ["/proc/sys", "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sysrq-trigger"],
        },
    })
}

fn mounts() -> Vec<Value> {
    let fixed = ["nosuid", "noexec", "nodev"];
    let mut mounts = vec![
        json!({ "destination": "/proc", "type": "proc", "source": "proc" }),
        json!({ "destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["nosuid", "ro"] }),
        json!({ "destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "size=64k"] }),
        json!({ "destination": "/dev/pts", "type": "devpts", "source": "devpts",
            "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"] }),
        json!({ "destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": fixed }),
    ];
    let shared = SHARED.into_iter().filter(|path| Path::new(path).is_dir());
    mounts.extend(["/usr"].into_iter().chain(shared).map(|path| {
        json!({ "destination": path, "type": "bind", "source": path,
            "options": ["rbind", "ro", "nosuid", "nodev"] })
    }));
    mounts
}
