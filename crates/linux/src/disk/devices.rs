//! Loop devices with a file of a body behind them. The kernel names that file as long as the device exists, so that
//! one is found after any crash.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_micros(500);

/// The devices that a file below this directory is behind, removed or not.
pub(crate) fn backed_by(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut devices = Vec::new();
    for name in loops_in_use()? {
        match fs::read_to_string(Path::new("/sys/block").join(&name).join("loop/backing_file")) {
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

/// The kernel lists devices that have a size. Those that were ever used stay by the hundred, without one.
fn loops_in_use() -> io::Result<Vec<String>> {
    let listed = match fs::read_to_string("/proc/partitions") {
        Ok(listed) => listed,
        // A kernel without devices has none that we could have made.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let names = listed.lines().filter_map(|line| line.split_whitespace().nth(3));
    Ok(names.filter(|name| name.starts_with("loop")).map(str::to_owned).collect())
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
    fn a_file_is_known_after_it_was_removed_and_another_of_a_longer_name_is_not() {
        let body = Path::new("/data/bodies/v1.a.1");

        assert!(is_below("/data/bodies/v1.a.1/disk\n", body));
        assert!(is_below("/data/bodies/v1.a.1/disk (deleted)\n", body));
        assert!(!is_below("/data/bodies/v1.a.10/disk\n", body));
    }
}
