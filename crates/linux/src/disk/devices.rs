//! Loop devices with a file of a body behind them. The kernel names that file as long as the device exists, so that
//! one is found after any crash.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_micros(500);

/// The devices that a file below this directory is behind, removed or not.
pub(crate) fn backed_by(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let partitions = match fs::read_to_string("/proc/partitions") {
        Ok(partitions) => partitions,
        // Without a view of devices there are none that we could have made.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut devices = Vec::new();
    for name in loops_in(&partitions) {
        match fs::read_to_string(Path::new("/sys/block").join(name).join("loop/backing_file")) {
            Ok(file) if is_below(&file, directory) => devices.push(Path::new("/dev").join(name)),
            Ok(_) => {}
            // Nothing is behind it, or not any more.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(devices)
}

/// A loop device that nothing is behind has no size, and the kernel lists only what has one. There may be a hundred of
/// the others, since a device stays when its file goes.
fn loops_in(partitions: &str) -> impl Iterator<Item = &str> {
    let is_number = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    let names = partitions.lines().filter_map(|line| line.split_whitespace().nth(3));
    names.filter(move |name| name.strip_prefix("loop").is_some_and(is_number))
}

fn is_below(file: &str, directory: &Path) -> bool {
    let file = file.strip_suffix('\n').unwrap_or(file);
    Path::new(file.strip_suffix(" (deleted)").unwrap_or(file)).starts_with(directory)
}

/// Waits until they are gone. Whoever closes a device last frees it: so each is opened and closed once more, in
/// case whoever made it was killed before it was mounted.
pub(crate) fn let_go_of(directory: &Path, patience: Duration) -> io::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "a wait for the kernel takes real time")]
    let end = Instant::now() + patience;
    loop {
        let devices = backed_by(directory)?;
        let Some(first) = devices.first() else { return Ok(()) };
        #[expect(clippy::disallowed_methods, reason = "as above")]
        if Instant::now() >= end {
            let why = format!("`{}` is still in use", first.display());
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        for device in &devices {
            drop(File::open(device));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_loop_devices_are_told_from_parts_of_them_and_from_other_disks() {
        let partitions = "major minor  #blocks  name\n\n 254        0   67108864 vda\n   7        3       1024 loop3\n \
                          259        0       1000 loop3p1\n   7       12       1024 loop12\n";

        assert_eq!(loops_in(partitions).collect::<Vec<_>>(), ["loop3", "loop12"]);
    }

    #[test]
    fn a_file_is_known_after_it_was_removed_and_another_of_a_longer_name_is_not() {
        let body = Path::new("/data/bodies/v1.a.1");

        assert!(is_below("/data/bodies/v1.a.1/disk\n", body));
        assert!(is_below("/data/bodies/v1.a.1/disk (deleted)\n", body));
        assert!(!is_below("/data/bodies/v1.a.10/disk\n", body));
    }
}
