//! Ordinary programs work although most of what the kernel tells about the host is hidden.

use std::path::Path;

use crate::sandbox::Sandbox;

/// Program, script, and a part of what it says.
const TOOLS: &[(&str, &str, &str)] = &[
    ("nproc", "test $(nproc) -ge 1 && echo works", "works"),
    ("ps", "ps aux", "ps aux"),
    ("free", "free -m", "Mem:"),
    ("top", "top -b -n 1", "PID"),
    ("vmstat", "vmstat", "procs"),
    ("uptime", "uptime", "load average"),
    ("lscpu", "lscpu", "CPU(s)"),
    ("df", "df /", "/"),
    ("mount", "mount", "on /proc type proc"),
    ("getconf", "getconf _NPROCESSORS_CONF", ""),
    ("ls", "ls /sys/class/net && cat /sys/class/net/lo/mtu", "lo"),
    ("python3", "python3 -c 'import os; print(os.cpu_count() >= 1, os.getloadavg()[0] >= 0)'", "True True"),
    (
        "node",
        "node -e 'os = require(\"os\"); console.log(os.cpus().length > 0, os.totalmem() > 0)'",
        "true true",
    ),
    ("java", "java -Xmx64m -XshowSettings:system -version 2>&1", "version"),
    (
        "gcc",
        "echo 'int main(){return 0;}' > /tmp/a.c && gcc /tmp/a.c -o /tmp/a && /tmp/a && echo works",
        "works",
    ),
    ("openssl", "openssl version", "OpenSSL"),
];

#[tokio::test]
async fn ordinary_tools_work_with_hidden_kernel_files() {
    let sandbox = Sandbox::plain().await;
    let mut wrong = Vec::new();

    for (program, script, word) in TOOLS {
        // Only programs of the host that a sandbox can see.
        if !Path::new("/usr/bin").join(program).exists() {
            continue;
        }
        let execution = sandbox.script(script).await;
        let outcome = sandbox.outcome(execution).await;
        let said = sandbox.stdout(execution);
        if outcome.exit_code != Some(0) || !said.contains(word) {
            wrong.push(format!("{program}: {:?} {said}", outcome.exit_code));
        }
    }

    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn sandbox_sees_no_disk_in_sys_and_nothing_in_hidden_files_of_proc() {
    let sandbox = Sandbox::plain().await;

    let said = sandbox
        .says(
            "cat /proc/cmdline /proc/diskstats /proc/partitions /proc/interrupts /proc/swaps; \
             ls -A /sys/block /sys/class/block /sys/dev /sys/firmware /sys/module /proc/bus /proc/fs /proc/irq \
             2>/dev/null | grep -v :; find /sys -name block",
        )
        .await;

    assert_eq!(said.trim(), "");
}
