//! Kernel features: namespaces, ids, system call filters.

use std::fs;
use std::path::Path;

use rustix::process::{PidfdFlags, getpid, getuid, pidfd_open};

use super::Diagnosis;

/// Sysctls by which distributions forbid user namespaces to ordinary users.
const SWITCHES: [(&str, &str, &str); 3] = [
    ("/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"),
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sysctl kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for pinfold",
    ),
];
const NAMESPACES: [&str; 7] = ["user", "pid", "mnt", "net", "ipc", "uts", "cgroup"];
/// The first kernel with overlayfs over id-mapped mounts, which sandboxes of root need.
const OLDEST_FOR_ROOT: (u32, u32) = (5, 19);
const OLDEST: (u32, u32) = (5, 12);

pub(super) fn diagnose() -> Vec<Diagnosis> {
    vec![version(), namespaces(), user_namespaces(), ids(), seccomp(), landlock(), pidfd(), overlay()]
}

fn release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// Whether this kernel has at least this version.
pub(super) fn is_at_least(wanted: (u32, u32)) -> bool {
    let release = release();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    numbers.next().zip(numbers.next()).is_some_and(|known| known >= wanted)
}

fn version() -> Diagnosis {
    let release = release();
    let oldest = if getuid().is_root() { OLDEST_FOR_ROOT } else { OLDEST };
    if is_at_least(oldest) {
        return Diagnosis::enforced("kernel", format!("Linux {release}"));
    }
    let advice = format!("use Linux {}.{} or newer", oldest.0, oldest.1);
    Diagnosis::missing("kernel", format!("Linux {release}"), advice)
}

fn namespaces() -> Diagnosis {
    let is_absent = |name: &&&str| !Path::new("/proc/self/ns").join(name).exists();
    let absent: Vec<_> = NAMESPACES.iter().filter(is_absent).copied().collect();
    let found = if absent.is_empty() {
        Diagnosis::enforced("namespaces", NAMESPACES.join(", "))
    } else {
        let why = format!("this kernel has no {}", absent.join(", "));
        Diagnosis::missing("namespaces", why, "use a kernel with these namespaces")
    };
    found.required()
}

fn user_namespaces() -> Diagnosis {
    let name = "user namespaces";
    for (file, closed, fix) in SWITCHES {
        let is_closed = fs::read_to_string(file).is_ok_and(|text| text.trim() == closed);
        // Only the first sysctl applies to root.
        if is_closed && (!getuid().is_root() || file.ends_with("max_user_namespaces")) {
            let why = format!("`{file}` is {closed}");
            return Diagnosis::missing(name, why, fix).required();
        }
    }
    let who = if getuid().is_root() { "as root" } else { "allowed for ordinary users" };
    Diagnosis::enforced(name, who).required()
}

fn ids() -> Diagnosis {
    if getuid().is_root() {
        return Diagnosis::enforced("separate ids", "65,536 for each sandbox, from 1,000,000,000 on");
    }
    let why = "root inside is this user outside, and sandboxes share that id";
    Diagnosis::watched("separate ids", why, "run as root, so that each sandbox gets separate ids")
}

fn seccomp() -> Diagnosis {
    let known = fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    let found = if known.split_whitespace().any(|action| action == "errno") {
        Diagnosis::enforced("system call filter", "seccomp")
    } else {
        let fix = "use a kernel with CONFIG_SECCOMP_FILTER";
        Diagnosis::missing("system call filter", "this kernel has no seccomp filters", fix)
    };
    found.required()
}

fn landlock() -> Diagnosis {
    let loaded = fs::read_to_string("/sys/kernel/security/lsm").unwrap_or_default();
    if loaded.split(',').any(|module| module.trim() == "landlock") {
        return Diagnosis::enforced("landlock", "available; sandboxes do not depend on it");
    }
    let fix = "optional: the mount namespace confines sandboxes; to enable it, boot with lsm=landlock,…";
    Diagnosis::missing("landlock", "not loaded, or securityfs is not mounted", fix)
}

fn pidfd() -> Diagnosis {
    let found = match pidfd_open(getpid(), PidfdFlags::empty()) {
        Ok(_) => Diagnosis::enforced("handles to processes", "pidfd"),
        Err(error) => Diagnosis::missing("handles to processes", error.to_string(), "use Linux 5.3 or newer"),
    };
    found.required()
}

fn overlay() -> Diagnosis {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if known.lines().any(|line| line.trim_start_matches("nodev").trim() == "overlay") {
        return Diagnosis::enforced("overlay", "overlayfs");
    }
    let why = "overlayfs is not loaded; images cannot share their layers";
    Diagnosis::missing("overlay", why, "modprobe overlay")
}
