//! What is detected on typical hosts.

use super::*;

const SYSTEMD_V2: &str = "\
24 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot
";

const SYSTEMD_V1: &str = "\
31 23 0:28 / /sys/fs/cgroup ro,nosuid,nodev,noexec shared:9 - tmpfs tmpfs ro,mode=755
32 31 0:29 / /sys/fs/cgroup/systemd rw shared:10 - cgroup cgroup rw,xattr,name=systemd
36 31 0:33 / /sys/fs/cgroup/cpu,cpuacct rw shared:16 - cgroup cgroup rw,cpu,cpuacct
37 31 0:34 / /sys/fs/cgroup/memory rw shared:17 - cgroup cgroup rw,memory
38 31 0:35 / /sys/fs/cgroup/net_cls,net_prio rw shared:18 - cgroup cgroup rw,net_cls,net_prio
39 31 0:36 / /sys/fs/cgroup/pids rw shared:19 - cgroup cgroup rw,pids
";

const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

fn groups(detected: &[DetectedHierarchy]) -> Vec<(Version, &str)> {
    detected.iter().map(|it| (it.version, it.own.to_str().unwrap())).collect()
}

#[test]
fn a_systemd_machine_with_v2_has_one_hierarchy() {
    let detected = detect_hierarchies(SYSTEMD_V2, "0::/user.slice/user-1000.slice/session-3.scope\n");

    let own = "/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope";
    assert_eq!(groups(&detected), [(Version::V2, own)]);
}

#[test]
fn a_systemd_machine_with_v1_has_the_usable_hierarchies() {
    let membership =
        "12:cpu,cpuacct:/system.slice\n5:net_cls,net_prio:/\n4:memory:/system.slice/pf.service\n3:pids:/\n";

    let detected = detect_hierarchies(SYSTEMD_V1, membership);

    let expected = [
        (Version::V1, "/sys/fs/cgroup/cpu,cpuacct/system.slice"),
        (Version::V1, "/sys/fs/cgroup/memory/system.slice/pf.service"),
        (Version::V1, "/sys/fs/cgroup/pids"),
    ];
    assert_eq!(groups(&detected), expected);
    assert_eq!(detected[0].controllers, [Controller::Cpu, Controller::Cpuacct]);
}

#[test]
fn a_hybrid_machine_has_v2_first() {
    let detected = detect_hierarchies(HYBRID, "8:pids:/\n4:memory:/api/7\n0::/\n");

    let expected = [
        (Version::V2, "/sys/fs/cgroup/unified"),
        (Version::V1, "/sys/fs/cgroup/memory/api/7"),
        (Version::V1, "/sys/fs/cgroup/pids"),
    ];
    assert_eq!(groups(&detected), expected);
}

#[test]
fn a_container_that_sees_a_subtree_is_placed_within_it() {
    let mountinfo = "1 2 0:1 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw";

    let detected = detect_hierarchies(mountinfo, "0::/docker/abc/init\n");

    assert_eq!(groups(&detected), [(Version::V2, "/sys/fs/cgroup/init")]);
}

#[test]
fn an_invisible_cgroup_counts_as_the_mount_point() {
    for path in ["/../other", "/docker/abcdef", "/"] {
        let mountinfo = "1 2 0:1 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw";

        let detected = detect_hierarchies(mountinfo, &format!("0::{path}\n"));

        assert_eq!(groups(&detected), [(Version::V2, "/sys/fs/cgroup")], "{path}");
    }
}

#[test]
fn a_path_above_the_mount_is_not_followed() {
    let detected = detect_hierarchies(SYSTEMD_V2, "0::/../../x\n");

    assert_eq!(groups(&detected), [(Version::V2, "/sys/fs/cgroup")]);
}

#[test]
fn the_writable_one_of_two_mounts_of_a_hierarchy_is_used() {
    let mountinfo =
        "1 2 0:1 / /a ro - cgroup2 x rw\n1 2 0:1 / /b rw - cgroup2 x rw\n1 2 0:1 / /c rw - cgroup2 x rw";

    let detected = detect_hierarchies(mountinfo, "0::/\n");

    assert_eq!(groups(&detected), [(Version::V2, "/b")]);
}

#[test]
fn odd_names_are_kept() {
    let mountinfo = r"1 2 0:1 / /mnt/c\040g rw - cgroup2 x rw";

    let detected = detect_hierarchies(mountinfo, "0::/a b:c\\d\n");

    assert_eq!(groups(&detected), [(Version::V2, "/mnt/c g/a b:c\\d")]);
}

#[test]
fn a_machine_without_cgroups_has_none() {
    assert_eq!(detect_hierarchies("24 1 8:1 / / rw - ext4 /dev/sda1 rw\n", ""), []);
}
