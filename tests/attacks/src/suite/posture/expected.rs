//! The expected state of processes in a sandbox, one check per kind. A check returns the differences.

use std::fs;

use pinfold_confine::{CapabilitySet, WORKLOAD_CAPABILITIES};

use super::hidden::{HIDDEN_DIRECTORIES, HIDDEN_FILES};
use super::observed::{GIVEN, Observed};
use crate::fixture::Fixture;
use crate::leftovers::ids_of;

pub(super) type Check = fn(&Fixture, &Observed) -> Vec<String>;

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("namespaces", namespaces),
    ("maps of ids", maps),
    ("users and groups", users),
    ("capabilities", capabilities),
    ("no new privileges, filters", filters),
    ("descriptors of an execution", descriptors),
    ("descriptors of the keeper", descriptors_of_keeper),
    ("limits", limits),
    ("mounts", mounts),
    ("environment", environment),
    ("environment of the keeper", |_, observed| {
        equal("the keeper's environment", observed.of_keeper("environ"), "")
    }),
    ("working directory and umask", |_, observed| {
        [
            equal("working directory", observed.of("cwd"), "/workspace"),
            equal("umask", observed.of("umask"), "0022"),
        ]
        .concat()
    }),
    ("visible processes", processes),
    ("devices", |_, observed| {
        let devices = "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero";
        equal("devices", &words(observed.of("devices")), devices)
    }),
    ("network", |_, observed| {
        let routes = observed.of("routes").lines().count();
        [
            equal("interfaces", observed.of("interfaces"), "lo"),
            equal("lines of routes", &routes.to_string(), "1"),
        ]
        .concat()
    }),
    ("host name", |fixture, observed| {
        equal("host name", observed.of("hostname"), &fixture.instance.sandbox.to_string())
    }),
    ("oom score", |_, observed| {
        let own = fs::read_to_string("/proc/self/oom_score_adj").unwrap_or_default();
        [
            equal("of an execution", observed.of("oom"), own.trim()),
            equal("of the keeper", observed.of_keeper("oom_score_adj"), &own),
        ]
        .concat()
    }),
    ("session", |_, observed| {
        let mut lines = observed.of("session").lines();
        let (both, own) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        equal("group and session", both, &format!("{own} {own}"))
    }),
    ("visible parts of the keeper", |_, observed| equal("what can be read", observed.of("keeper"), "")),
    ("names of control groups", |fixture, observed| {
        let hidden = [fixture.name(), format!("{:032x}", fixture.store_id)];
        let told = hidden.iter().filter(|name| observed.of("groups").contains(name.as_str()));
        told.map(|name| format!("they show {name}")).collect()
    }),
    ("directories for every user inside", |_, observed| {
        equal(
            "modes of /, /tmp, /workspace and /root",
            &words(observed.of("openness")),
            "1777:0:0 700:0:0 755:0:0 755:0:0",
        )
    }),
    ("secrets", secrets),
];

fn equal(what: &str, found: &str, expected: &str) -> Vec<String> {
    if found == expected { Vec::new() } else { vec![format!("{what}: `{found}` instead of `{expected}`")] }
}

fn words(text: &str) -> String {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    words.sort_unstable();
    words.join(" ")
}

fn field<'a>(text: &'a str, name: &str) -> &'a str {
    text.lines().find_map(|line| line.strip_prefix(name)).map_or("", str::trim)
}

fn namespaces(_: &Fixture, observed: &Observed) -> Vec<String> {
    let mut shared = Vec::new();
    for name in ["user", "pid", "mnt", "net", "ipc", "uts", "cgroup"] {
        let host = fs::read_link(format!("/proc/self/ns/{name}")).unwrap_or_default().display().to_string();
        let inside = observed.of("namespaces").lines().find(|line| line.starts_with(name));
        if inside.is_none_or(|inside| inside == host) {
            shared.push(format!("{name} is {inside:?}, and the host's {host}"));
        }
    }
    shared
}

fn maps(fixture: &Fixture, observed: &Observed) -> Vec<String> {
    let Some(ids) = ids_of(fixture) else { return vec!["it has no ids of its own".into()] };
    let expected = format!("0 {} 65536", ids.start);
    let single = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    [
        equal("uid_map", &single(observed.of("uid_map")), &expected),
        equal("gid_map", &single(observed.of("gid_map")), &expected),
        equal("setgroups", observed.of("setgroups"), "allow"),
    ]
    .concat()
}

fn users(fixture: &Fixture, observed: &Observed) -> Vec<String> {
    let targets = ids_of(fixture).map_or(0, |ids| ids.start);
    let four = |id: u32| format!("{id}\t{id}\t{id}\t{id}");
    let mut wrong = Vec::new();
    for (whose, status, id) in
        [("execution", observed.of("status"), 0), ("keeper", observed.of_keeper("status"), targets)]
    {
        for (name, expected) in [("Uid:", four(id)), ("Gid:", four(id)), ("Groups:", String::new())] {
            wrong.extend(equal(&format!("{whose} {name}"), field(status, name), &expected));
        }
    }
    wrong
}

fn capabilities(_: &Fixture, observed: &Observed) -> Vec<String> {
    let own = format!("{:016x}", WORKLOAD_CAPABILITIES.bits());
    let none = format!("{:016x}", 0);
    let mut wrong = Vec::new();
    let sets =
        [("CapInh:", &none), ("CapPrm:", &own), ("CapEff:", &own), ("CapBnd:", &own), ("CapAmb:", &none)];
    for (name, expected) in sets {
        wrong.extend(equal(&format!("execution {name}"), field(observed.of("status"), name), expected));
    }
    // The keeper cannot pass on its further capabilities: they are not in its bounding set.
    for (name, expected) in [("CapInh:", &none), ("CapBnd:", &own), ("CapAmb:", &none)] {
        wrong.extend(equal(&format!("keeper {name}"), field(observed.of_keeper("status"), name), expected));
    }
    let mut keepers = WORKLOAD_CAPABILITIES | CapabilitySet::SYS_ADMIN;
    if !observed.of_keeper("descriptors").lines().any(|target| target.ends_with("/work")) {
        // Without a cgroup for executions the keeper finds its processes one by one.
        keepers |= CapabilitySet::SYS_PTRACE;
    }
    let keepers = format!("{:016x}", keepers.bits());
    for name in ["CapPrm:", "CapEff:"] {
        wrong.extend(equal(&format!("keeper {name}"), field(observed.of_keeper("status"), name), &keepers));
    }
    wrong
}

fn filters(_: &Fixture, observed: &Observed) -> Vec<String> {
    let (own, keepers) = (observed.of("status"), observed.of_keeper("status"));
    [
        equal("execution NoNewPrivs", field(own, "NoNewPrivs:"), "1"),
        equal("execution Seccomp", field(own, "Seccomp:"), "2"),
        equal("execution filters", field(own, "Seccomp_filters:"), "2"),
        equal("keeper NoNewPrivs", field(keepers, "NoNewPrivs:"), "1"),
        equal("keeper Seccomp", field(keepers, "Seccomp:"), "2"),
        equal("keeper filters", field(keepers, "Seccomp_filters:"), "1"),
    ]
    .concat()
}

/// `/dev/null` as input, and two pipes as output.
fn descriptors(_: &Fixture, observed: &Observed) -> Vec<String> {
    let kind = |line: &str| line.split(':').next().unwrap_or_default().to_owned();
    let found: Vec<String> = observed.of("descriptors").lines().map(kind).collect();
    equal("descriptors", &found.join(", "), "0 /dev/null, 1 pipe, 2 pipe")
}

/// Descriptors by kind and number: the listening socket, the log directory, the pid lock, the signalfd;
/// `/dev/null` on the first three and once more for executions; the sandbox's terminals; the pipes from its
/// spawner and for its caller.
const KEEPERS: &str = "1 lock, 1 logs, 4 nothing, 3 pipe, 1 signals, 1 socket, 1 terminals";

/// Further descriptors for executions: the cgroup, its counters, and the files by which v1 cgroups are joined,
/// each once.
const GROUPS: [&str; 6] =
    ["", "/tasks", "/cgroup.procs", "/memory.events", "/memory.oom_control", "/pids.events"];

/// With v1, executions run in the instance's own cgroup wherever the keeper does not.
const FLAT_GROUPS: [&str; 3] = ["/tasks", "/memory.oom_control", "/pids.events"];

fn descriptors_of_keeper(fixture: &Fixture, observed: &Observed) -> Vec<String> {
    let logs = format!("{}/logs/", fixture.data().display());
    // The kernel shows its real path.
    let lock =
        fs::canonicalize(fixture.control().join("keeper.pid")).unwrap_or_default().display().to_string();
    let own_group = |target: &str| {
        let own = format!("/{}", fixture.name());
        let below = target.starts_with("/sys/fs/cgroup/").then(|| target.split_once(&own)).flatten();
        below.is_some_and(|(_, file)| match file.strip_prefix("/work") {
            Some(file) => GROUPS.contains(&file),
            None => FLAT_GROUPS.contains(&file),
        })
    };
    let kind = |target: &str| match target {
        // The host's and the sandbox's own.
        "/null" | "/dev/null" => "nothing".to_owned(),
        "/dev/pts" => "terminals".to_owned(),
        "anon_inode:[signalfd]" => "signals".to_owned(),
        _ if target == lock => "lock".to_owned(),
        _ if target.starts_with("socket:") => "socket".to_owned(),
        _ if target.starts_with("pipe:") => "pipe".to_owned(),
        _ if target.starts_with(&logs) => "logs".to_owned(),
        other => other.to_owned(),
    };
    let (groups, others): (Vec<&str>, Vec<&str>) =
        observed.of_keeper("descriptors").lines().partition(|target| own_group(target));
    let mut counted = std::collections::BTreeMap::<String, usize>::new();
    for target in others {
        *counted.entry(kind(target)).or_default() += 1;
    }
    let found: Vec<String> = counted.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let mut wrong = equal("descriptors of the keeper", &found.join(", "), KEEPERS);
    let twice = groups.windows(2).filter(|pair| pair[0] == pair[1]);
    wrong.extend(twice.map(|pair| format!("the keeper holds {} twice", pair[0])));
    wrong
}

fn limits(_: &Fixture, observed: &Observed) -> Vec<String> {
    let expected = [
        ("Max open files", "16384 16384"),
        ("Max locked memory", "8388608 8388608"),
        ("Max msgqueue size", "819200 819200"),
        ("Max pending signals", "4096 4096"),
        ("Max file locks", "4096 4096"),
        ("Max core file size", "0 0"),
        ("Max nice priority", "0 0"),
        ("Max realtime priority", "0 0"),
    ];
    let both = |name: &str| {
        field(observed.of("limits"), name).split_whitespace().take(2).collect::<Vec<_>>().join(" ")
    };
    let mut wrong: Vec<String> =
        expected.iter().flat_map(|(name, value)| equal(name, &both(name), value)).collect();
    let keepers = field(observed.of_keeper("limits"), "Max core file size");
    wrong.extend(equal(
        "the keeper's core files",
        &keepers.split_whitespace().take(2).collect::<Vec<_>>().join(" "),
        "0 0",
    ));
    wrong
}

/// Path, type and flags of each mount. The host's files are read-only and have other inodes inside, and the device files
/// are the sandbox's own.
fn mounts(_: &Fixture, observed: &Observed) -> Vec<String> {
    let mut wrong = Vec::new();
    for line in observed.of("mounts").lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (Some(at), Some(options)) = (words.get(4), words.get(5)) else { continue };
        let kind =
            line.split(" - ").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap_or_default();
        let has = |option: &str| options.split(',').any(|one| one == option);
        let is = |all: &[&str]| all.iter().all(|option| has(option));
        let good = match *at {
            "/" => is(&["rw", "nosuid", "nodev"]),
            "/proc" => kind == "proc" && is(&["nosuid", "nodev", "noexec"]),
            "/sys" => kind == "tmpfs" && is(&["ro", "nosuid", "nodev", "noexec"]),
            "/sys/class/net"
            | "/sys/devices/system/cpu"
            | "/sys/devices/system/node"
            | "/sys/devices/virtual/net"
            | "/sys/kernel/mm/transparent_hugepage" => {
                kind == "sysfs" && is(&["ro", "nosuid", "nodev", "noexec"])
            }
            "/dev" => kind == "tmpfs" && is(&["ro", "nosuid", "noexec"]),
            "/dev/pts" => kind == "devpts" && is(&["nosuid", "noexec"]),
            "/dev/shm" => kind == "tmpfs" && is(&["nosuid", "nodev", "noexec"]),
            "/usr" | "/bin" | "/sbin" | "/lib" | "/lib64" | "/lib32" | "/libx32" => {
                kind == "overlay" && is(&["ro", "nosuid", "nodev"])
            }
            "/proc/sys" => is(&["ro", "nosuid", "nodev", "noexec"]),
            _ if HIDDEN_DIRECTORIES.contains(at) => kind == "tmpfs" && has("ro"),
            _ if HIDDEN_FILES.contains(at) => kind == "tmpfs",
            _ => false,
        };
        if !good {
            wrong.push(format!("{at} is {kind} {options}"));
        }
    }
    let at: Vec<&str> =
        observed.of("mounts").lines().filter_map(|line| line.split_whitespace().nth(4)).collect();
    for path in HIDDEN_DIRECTORIES.iter().chain(HIDDEN_FILES).chain(&["/proc/sys", "/usr"]) {
        if std::path::Path::new(path).exists() && !at.contains(path) {
            wrong.push(format!("nothing hides or holds {path}"));
        }
    }
    wrong
}

fn environment(_: &Fixture, observed: &Observed) -> Vec<String> {
    let mut expected = vec![
        "HOME=/root".to_owned(),
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
    ];
    expected.extend(GIVEN.iter().map(|(name, value)| format!("{name}={value}")));
    expected.sort();
    let mut found: Vec<&str> = observed.of("environment").lines().filter(|line| !line.is_empty()).collect();
    found.sort_unstable();
    equal("environment", &found.join(" "), &expected.join(" "))
}

/// The keeper, the shell and what it has just started.
fn processes(_: &Fixture, observed: &Observed) -> Vec<String> {
    let mut lines = observed.of("processes").lines();
    let (first, count) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let few = count.parse::<u32>().is_ok_and(|count| count <= 6);
    let mut wrong = equal("the first process", first, "1");
    if !few {
        wrong.push(format!("{count} processes are visible"));
    }
    wrong
}

/// The keeper's secret appears nowhere, and of the host's paths only what the kernel shows of a mount.
fn secrets(fixture: &Fixture, observed: &Observed) -> Vec<String> {
    let (secret, data) = (fixture.secret(), fixture.data().display().to_string());
    let mut told = Vec::new();
    for (section, text) in &observed.inside {
        if text.contains(&secret) {
            told.push(format!("{section} shows the keeper's secret"));
        }
        if text.contains(&data) && section != "mounts" {
            told.push(format!("{section} shows the sandbox's directory"));
        }
    }
    told
}
