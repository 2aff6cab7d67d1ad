//! How much of the host is in use.

use std::path::Path;

/// The scarcer of memory and disk, as a share of one. None: neither could be read.
pub(super) fn used(data: &Path) -> Option<f64> {
    let shares = [memory(), disk(data)];
    shares.into_iter().flatten().reduce(f64::max)
}

fn memory() -> Option<f64> {
    share_in(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

/// What the kernel would still give away counts as free.
fn share_in(meminfo: &str) -> Option<f64> {
    let kib = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<f64>().ok()
    };
    let (total, available) = (kib("MemTotal:")?, kib("MemAvailable:")?);
    (total > 0.0).then(|| 1.0 - available / total)
}

#[expect(clippy::cast_precision_loss, reason = "blocks of a disk, for a share of it")]
fn disk(data: &Path) -> Option<f64> {
    let disk = rustix::fs::statvfs(data).ok()?;
    (disk.f_blocks > 0).then(|| 1.0 - disk.f_bavail as f64 / disk.f_blocks as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_be_given_away_is_not_in_use() {
        assert_eq!(share_in("MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable: 250 kB\n"), Some(0.75));
        assert_eq!(share_in("MemTotal:  1000 kB\n"), None);
    }

    #[test]
    fn this_host_has_a_share() {
        let used = used(Path::new("/")).unwrap();

        assert!((0.0..=1.0).contains(&used), "{used}");
    }
}
