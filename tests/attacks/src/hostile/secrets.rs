//! Searches for secrets that must not be visible inside.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};

use crate::kernel::{call, in_child};
use crate::verdict::{Attempt, Step, Verdict, suite_variable, through_if};

pub(crate) const ATTEMPTS: &[(&str, Attempt)] = &[
    ("find-a-secret-in-environments", |_| find_in("environ")),
    ("find-a-secret-in-arguments", |_| find_in("cmdline")),
    ("find-a-secret-in-memory-of-process-1", |_| find_in_memory()),
    ("find-a-secret-in-files", |_| {
        let wanted = hunted()?;
        for directory in
            ["/", "/run", "/tmp", "/etc", "/root", "/home", "/workspace", "/var/lib", "/dev", "/dev/shm"]
        {
            let Ok(entries) = fs::read_dir(directory) else { continue };
            for entry in entries.flatten() {
                // The path may lead to an endless device.
                let found = fs::metadata(entry.path());
                let is_small = found.is_ok_and(|found| found.is_file() && found.len() < 1 << 20);
                if is_small && fs::read(entry.path()).is_ok_and(|found| has(&found, wanted.as_bytes())) {
                    return Ok(Verdict::Through(format!("in {}", entry.path().display())));
                }
            }
        }
        Ok(Verdict::Held("in no file".into()))
    }),
    ("leave-a-core-file", |_| {
        std::env::set_current_dir("/tmp").step("enter /tmp")?;
        // Up to the hard limit: the soft limit may be lower.
        let mut limit = [0_u64; 2];
        call(libc::SYS_prlimit64, &[0, 4, 0, limit.as_mut_ptr().addr()]).step("ask for a limit")?;
        limit[0] = limit[1];
        call(libc::SYS_prlimit64, &[0, 4, limit.as_ptr().addr(), 0]).step("set a limit")?;
        let _ = in_child(|| {
            let _ = call(libc::SYS_kill, &[std::process::id() as usize, libc::SIGABRT as usize]);
            0
        });
        let left = fs::read_dir("/tmp").step("list /tmp")?.flatten();
        let cores: Vec<_> = left
            .map(|entry| entry.file_name())
            .filter(|name| name.to_string_lossy().starts_with("core"))
            .collect();
        through_if(!cores.is_empty(), format!("{cores:?}"))
    }),
    ("forge-a-piece-of-the-log", |_| {
        // A forged log record header: 4 bytes, from standard error, number 99, long ago.
        let mut piece = vec![4, 0, 0, 0, 2];
        piece.extend(99_u64.to_le_bytes());
        piece.extend(0_u64.to_le_bytes());
        piece.extend(b"fake");
        std::io::Write::write_all(&mut std::io::stdout(), &piece).step("write")?;
        Ok(Verdict::Held("written".into()))
    }),
];

/// Passed in reverse, so that the search does not find itself.
fn hunted() -> Result<String, String> {
    Ok(suite_variable("HUNTED")?.chars().rev().collect())
}

fn has(text: &[u8], wanted: &[u8]) -> bool {
    text.windows(wanted.len()).any(|window| window == wanted)
}

fn find_in(file: &str) -> Result<Verdict, String> {
    let wanted = hunted()?;
    let mut seen = 0;
    for entry in fs::read_dir("/proc").step("list processes")?.flatten() {
        if let Ok(found) = fs::read(entry.path().join(file)) {
            seen += 1;
            if has(&found, wanted.as_bytes()) {
                return Ok(Verdict::Through(format!("in {}", entry.path().display())));
            }
        }
    }
    Ok(Verdict::Held(format!("looked at {seen} processes")))
}

fn find_in_memory() -> Result<Verdict, String> {
    let wanted = hunted()?;
    let (maps, memory) = (fs::read_to_string("/proc/1/maps"), File::open("/proc/1/mem"));
    let (Ok(maps), Ok(mut memory)) = (maps, memory) else {
        return Ok(Verdict::Held("its memory cannot be opened".into()));
    };
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let range = line.split_whitespace().next().and_then(|range| range.split_once('-'));
        let Some((Ok(start), Ok(end))) =
            range.map(|(start, end)| (u64::from_str_radix(start, 16), u64::from_str_radix(end, 16)))
        else {
            continue;
        };
        let mut piece = vec![0; usize::try_from((end - start).min(8 << 20)).unwrap_or(0)];
        if memory.seek(SeekFrom::Start(start)).is_ok()
            && memory.read_exact(&mut piece).is_ok()
            && has(&piece, wanted.as_bytes())
        {
            return Ok(Verdict::Through(format!("at {start:x}")));
        }
    }
    Ok(Verdict::Held("not in its memory".into()))
}
