//! Loop devices backed by files of an instance. The kernel reports the backing file as long as the device exists, so
//! a leftover device is found after any crash.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const POLL_INTERVAL: Duration = Duration::from_micros(500);

/// Loop devices backed by a file below this directory, deleted or not.
pub(crate) fn loop_devices_backed_by(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let partitions = match fs::read_to_string("/proc/partitions") {
        Ok(partitions) => partitions,
        // Without this file we see no devices, and cannot have created any.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut devices = Vec::new();
    for name in loops_in(&partitions) {
        match fs::read_to_string(Path::new("/sys/block").join(name).join("loop/backing_file")) {
            Ok(file) if is_below(&file, directory) => devices.push(Path::new("/dev").join(name)),
            Ok(_) => {}
            // Not bound, or not any more.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(devices)
}

/// Names of bound loop devices: the kernel lists only devices with a size. Unbound ones stay and may number in the
/// hundreds.
fn loops_in(partitions: &str) -> impl Iterator<Item = &str> {
    let is_number = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    let names = partitions.lines().filter_map(|line| line.split_whitespace().nth(3));
    names.filter(move |name| name.strip_prefix("loop").is_some_and(is_number))
}

fn is_below(file: &str, directory: &Path) -> bool {
    let file = file.strip_suffix('\n').unwrap_or(file);
    Path::new(file.strip_suffix(" (deleted)").unwrap_or(file)).starts_with(directory)
}

/// Waits until the devices are released. The last close frees a device, so each is opened and closed once more, in
/// case its creator was killed before mounting it.
pub(crate) fn release_loop_devices(directory: &Path, timeout: Duration) -> io::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "a wait for the kernel takes real time")]
    let end = Instant::now() + timeout;
    loop {
        let devices = loop_devices_backed_by(directory)?;
        let Some(first) = devices.first() else { return Ok(()) };
        #[expect(clippy::disallowed_methods, reason = "as above")]
        if Instant::now() >= end {
            let why = format!("`{}` is still in use", first.display());
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        for device in &devices {
            drop(File::open(device));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loop_devices_are_distinguished_from_their_partitions_and_other_disks() {
        let partitions = "major minor  #blocks  name\n\n 254        0   67108864 vda\n   7        3       1024 loop3\n \
                          259        0       1000 loop3p1\n   7       12       1024 loop12\n";

        assert_eq!(loops_in(partitions).collect::<Vec<_>>(), ["loop3", "loop12"]);
    }

    #[test]
    fn deleted_backing_file_is_matched_and_longer_name_is_not() {
        let instance = Path::new("/data/instances/v1.a.1");

        assert!(is_below("/data/instances/v1.a.1/disk\n", instance));
        assert!(is_below("/data/instances/v1.a.1/disk (deleted)\n", instance));
        assert!(!is_below("/data/instances/v1.a.10/disk\n", instance));
    }
}
