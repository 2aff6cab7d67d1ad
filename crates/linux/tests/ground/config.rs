//! A provider of its own for each test: a data directory, an instance and the real clock.

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use pinfold_lifecycle::Timestamp;
use pinfold_linux::{LinuxConfig, NurseryProgram};

/// Where the nursery is, for a user who cannot reach where it was built.
pub(crate) const NURSERY: &str = "PINFOLD_TEST_NURSERY";

pub(crate) fn config(data: &Path) -> LinuxConfig {
    let name = data.file_name().unwrap().to_string_lossy().into_owned();
    let instance = name.bytes().fold(0, |sum: u128, byte| (sum << 8) | u128::from(byte));
    let program = std::env::var_os(NURSERY).unwrap_or_else(|| env!("CARGO_BIN_EXE_pinfold-nursery").into());
    LinuxConfig {
        data: data.to_owned(),
        instance,
        nursery: NurseryProgram { program: program.into(), arguments: Vec::new() },
        clock: Arc::new(now),
    }
}

#[expect(clippy::disallowed_methods, reason = "a test of real sandboxes takes real time")]
pub(crate) fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp(i64::try_from(since_epoch.as_millis()).unwrap())
}
