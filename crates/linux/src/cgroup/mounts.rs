//! Parses the cgroup mounts of `/proc/self/mountinfo`.

use std::path::PathBuf;

use crate::mountinfo::unescape;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    /// The cgroup that is mounted there. Not `/` in containers that see only a subtree.
    pub(super) root: String,
    pub(super) mount_point: PathBuf,
    pub(super) read_only: bool,
    pub(super) kind: MountKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MountKind {
    V2,
    /// With the superblock options, which include the controller names.
    V1 {
        options: Vec<String>,
    },
}

/// Parses all cgroup mounts in file order. Lines that cannot be parsed are skipped.
pub(super) fn parse(mountinfo: &str) -> Vec<Mount> {
    mountinfo.lines().filter_map(parse_line).collect()
}

/// `36 35 98:0 /root /mount/point rw,noatime shared:1 - cgroup cgroup rw,memory`, with any number of optional
/// fields before the dash.
fn parse_line(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let mut after = after.split(' ');
    let kind = after.next()?;
    let super_options = after.nth(1)?;
    let kind = match kind {
        "cgroup2" => MountKind::V2,
        "cgroup" => MountKind::V1 { options: super_options.split(',').map(str::to_owned).collect() },
        _ => return None,
    };

    let mut before = before.split(' ').skip(3);
    let root = unescape(before.next()?);
    let mount_point = PathBuf::from(unescape(before.next()?));
    let mount_options = before.next()?;
    let read_only = [mount_options, super_options].iter().any(|it| it.split(',').any(|it| it == "ro"));
    Some(Mount { root, mount_point, read_only, kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_v2_mount_is_read_past_its_optional_fields() {
        let line = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 master:2 - cgroup2 cgroup2 rw,nsdelegate";

        let mounts = parse(line);

        let mount_point = PathBuf::from("/sys/fs/cgroup");
        let root = "/".to_owned();
        assert_eq!(mounts, [Mount { root, mount_point, read_only: false, kind: MountKind::V2 }]);
    }

    #[test]
    fn a_v1_mount_keeps_the_names_of_its_controllers() {
        let line = "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct";

        let mounts = parse(line);

        let options = ["rw", "cpu", "cpuacct"].map(str::to_owned).to_vec();
        assert_eq!(mounts[0].kind, MountKind::V1 { options });
    }

    #[test]
    fn other_file_systems_and_broken_lines_are_passed_over() {
        let text =
            "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\nnonsense\n1 2 3:4 - cgroup2 x rw\n - cgroup2";

        assert_eq!(parse(text), []);
    }

    #[test]
    fn read_only_is_seen_on_the_mount_and_on_the_superblock() {
        let text = "1 2 0:1 / /a ro - cgroup2 cgroup2 rw\n1 2 0:1 / /b rw - cgroup2 cgroup2 ro\n";

        assert!(parse(text).iter().all(|mount| mount.read_only));
    }

    #[test]
    fn escaped_paths_are_read_as_they_are() {
        let line = r"1 2 0:1 /a\134b /mnt/c\040g\011x\0 rw - cgroup2 cgroup2 rw";

        let mounts = parse(line);

        assert_eq!(mounts[0].root, r"/a\b");
        assert_eq!(mounts[0].mount_point, PathBuf::from("/mnt/c g\tx\\0"));
    }
}
