//! The server's clock as seen from outside: the offset file in its data directory plus the kernel's boot-time
//! counter.

use std::fs;
use std::io;
use std::path::Path;

use rustix::time::{ClockId, clock_gettime};

#[derive(Debug, Clone, Copy)]
pub struct Clock {
    zero_ms: i64,
    /// Total of the clock jumps injected so far.
    pub jumped_ms: i64,
}

impl Clock {
    pub fn of(data: &Path) -> io::Result<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        let noted = fs::read_to_string(data.join(format!("clock.{}", boot.trim())))?;
        let zero_ms = noted.trim().parse().map_err(io::Error::other)?;
        Ok(Self { zero_ms, jumped_ms: 0 })
    }

    #[must_use]
    pub fn now_ms(&self) -> i64 {
        let counter = clock_gettime(ClockId::Boottime);
        self.zero_ms + self.jumped_ms + counter.tv_sec * 1_000 + counter.tv_nsec / 1_000_000
    }
}
