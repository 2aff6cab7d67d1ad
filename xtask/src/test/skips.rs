//! The file to which a test that cannot run appends its name and the reason. The test harness has no notion of
//! skipping at run time, so tests append to the file that the variable names and return.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub(super) const VARIABLE: &str = "PINFOLD_SKIPPED_TESTS";

pub(super) struct Skips {
    path: PathBuf,
    seen: Vec<String>,
}

impl Skips {
    /// Each job has its own file, since several run at once.
    pub(super) fn at(path: PathBuf) -> Result<Self> {
        fs::write(&path, "").with_context(|| format!("could not create `{}`", path.display()))?;
        Ok(Self { path, seen: Vec::new() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// How many lines were added since the last call.
    pub(super) fn new_lines(&mut self) -> Result<usize> {
        let text = fs::read_to_string(&self.path)
            .with_context(|| format!("could not read `{}`", self.path.display()))?;
        let before = self.seen.len();
        self.seen = text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect();
        Ok(self.seen.len().saturating_sub(before))
    }

    pub(super) fn lines(&self) -> &[String] {
        &self.seen
    }
}

impl Drop for Skips {
    fn drop(&mut self) {
        // A file left under target/ is not worth failing a run for.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_once_and_kept_for_the_summary() {
        let path = std::env::temp_dir().join(format!("pinfold-skips-{}", std::process::id()));
        let mut skips = Skips::at(path.clone()).unwrap();

        fs::write(&path, "crash: strace is missing\n").unwrap();
        let first = skips.new_lines().unwrap();
        fs::write(&path, "crash: strace is missing\nlocks: no such filesystem\n").unwrap();
        let second = skips.new_lines().unwrap();

        assert_eq!((first, second), (1, 1));
        assert_eq!(skips.lines(), ["crash: strace is missing", "locks: no such filesystem"]);
        drop(skips);
        assert!(!path.exists());
    }
}
