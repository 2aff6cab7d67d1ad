//! Parses `/proc/PID/cgroup`: the cgroup of a process in each hierarchy.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Membership {
    /// Empty for v2; `name=systemd` for a hierarchy without controllers.
    pub(super) controllers: Vec<String>,
    pub(super) path: String,
}

impl Membership {
    pub(super) fn is_v2(&self) -> bool {
        self.controllers.is_empty()
    }
}

/// Parses all lines. A cgroup name may contain anything but a newline, also colons.
pub(super) fn parse(text: &str) -> Vec<Membership> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Membership> {
    let mut fields = line.splitn(3, ':');
    let _number: u32 = fields.next()?.parse().ok()?;
    let controllers = fields.next()?.split(',').filter(|it| !it.is_empty()).map(str::to_owned).collect();
    let path = fields.next()?;
    // Appended for a zombie whose cgroup was removed; never for ourselves.
    let path = path.strip_suffix(" (deleted)").unwrap_or(path).to_owned();
    Some(Membership { controllers, path })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v2_is_the_line_without_controllers() {
        let memberships = parse("0::/user.slice/user-1000.slice/session-3.scope\n");

        assert!(memberships[0].is_v2());
        assert_eq!(memberships[0].path, "/user.slice/user-1000.slice/session-3.scope");
    }

    #[test]
    fn hybrid_lists_both() {
        let memberships = parse("9:name=systemd:/\n4:cpu,cpuacct:/a\n0::/\n");

        let v2: Vec<bool> = memberships.iter().map(Membership::is_v2).collect();
        assert_eq!(v2, [false, false, true]);
        assert_eq!(memberships[1].controllers, ["cpu", "cpuacct"]);
    }

    #[test]
    fn colons_belong_to_the_path_and_broken_lines_are_ignored() {
        let memberships = parse("0::/kube:pod:7\nx:y\n\n7:pids\n");

        assert_eq!(memberships, [Membership { controllers: vec![], path: "/kube:pod:7".to_owned() }]);
    }
}
