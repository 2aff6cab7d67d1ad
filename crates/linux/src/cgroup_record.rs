//! Record of the cgroup directories of an instance, written before they are created. Without a complete record the
//! cgroups have to be searched for in every hierarchy of the host.

use std::fs;
use std::io;
use std::path::PathBuf;

use crate::cgroup::{CgroupLimits, Cgroups, InstanceCgroup};
use crate::paths::InstancePaths;

/// The last line of a complete record. A record without it was truncated by a crash and is not trusted.
const END_LINE: &str = "complete";

/// Adds the directories about to be created to those recorded before. `may_have_older`: the control directory existed
/// before, so there may be cgroups from before the first record.
pub(crate) fn record(
    cgroups: &Cgroups,
    paths: &InstancePaths,
    limits: &CgroupLimits,
    may_have_older: bool,
) -> io::Result<()> {
    let planned = cgroups.planned_directories(&paths.name, limits).map_err(io::Error::other)?;
    let mut directories = match read(paths)? {
        CgroupRecord::Complete(known) => known,
        CgroupRecord::Missing if may_have_older => cgroups.find(&paths.name).map_err(io::Error::other)?,
        CgroupRecord::Missing => Vec::new(),
        // Left truncated: what else it listed is unknown, so only a search is safe.
        CgroupRecord::Truncated => return Ok(()),
    };
    let known = directories.len();
    for directory in planned {
        if !directories.contains(&directory) {
            directories.push(directory);
        }
    }
    if known == directories.len() && known > 0 {
        return Ok(());
    }
    write(paths, &directories)
}

/// Opens the cgroups of an instance, by the record or else by a search.
pub(crate) fn open_cgroups(cgroups: &Cgroups, paths: &InstancePaths) -> io::Result<InstanceCgroup> {
    if let CgroupRecord::Complete(directories) = read(paths)?
        && let Some(groups) = cgroups.open_at(&paths.name, &directories).map_err(io::Error::other)?
    {
        return Ok(groups);
    }
    cgroups.open(&paths.name).map_err(io::Error::other)
}

#[derive(Debug, PartialEq, Eq)]
enum CgroupRecord {
    Missing,
    Truncated,
    Complete(Vec<PathBuf>),
}

fn read(paths: &InstancePaths) -> io::Result<CgroupRecord> {
    let text = match fs::read_to_string(paths.cgroup_record()) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(CgroupRecord::Missing),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => return Ok(CgroupRecord::Truncated),
        Err(error) => return Err(error),
    };
    let mut lines: Vec<&str> = text.split_terminator('\n').collect();
    if !text.ends_with('\n') || lines.pop() != Some(END_LINE) {
        return Ok(CgroupRecord::Truncated);
    }
    Ok(CgroupRecord::Complete(lines.into_iter().map(PathBuf::from).collect()))
}

fn write(paths: &InstancePaths, directories: &[PathBuf]) -> io::Result<()> {
    let mut text = String::new();
    for directory in directories {
        // Our mount points and cgroups have no such names; if one had, an empty record makes readers search.
        match directory.to_str().filter(|path| !path.contains('\n')) {
            Some(path) => text.push_str(&format!("{path}\n")),
            None => return pinfold_private_files::write(&paths.cgroup_record(), ""),
        }
    }
    text.push_str(&format!("{END_LINE}\n"));
    pinfold_private_files::write(&paths.cgroup_record(), text)
}

#[cfg(test)]
mod tests {
    use pinfold_lifecycle::{Generation, SandboxId};
    use pinfold_provider::InstanceId;

    use super::*;
    use crate::cgroup::Ability;
    use crate::paths::{DataPaths, make_directory};

    /// A cgroup base of its own for each test, removed at the end.
    struct Fixture {
        _data: tempfile::TempDir,
        cgroups: Cgroups,
        paths: InstancePaths,
    }

    impl Drop for Fixture {
        fn drop(&mut self) {
            let _ =
                self.cgroups.open(&self.paths.name).map(|it| it.remove(std::time::Duration::from_secs(5)));
            let _ = self.cgroups.remove_empty_bases();
        }
    }

    /// `None`: this process may not create cgroups.
    fn fixture() -> Option<Fixture> {
        let data = tempfile::tempdir().unwrap();
        let instance = InstanceId { sandbox: SandboxId(1), generation: Generation(1) };
        let paths = DataPaths::on_disk(data.path()).unwrap().of(instance);
        make_directory(&paths.control, 0o700).unwrap();
        let base = data.path().file_name().unwrap().to_string_lossy().replace(".tmp", "pinfold-note-");
        let cgroups = Cgroups::detect(&base).unwrap();
        let fixture = Fixture { _data: data, cgroups, paths };
        matches!(fixture.cgroups.abilities().kill, Ability::Enforced { .. }).then_some(fixture)
    }

    const LIMITS: CgroupLimits = CgroupLimits {
        memory_bytes: None,
        processes: Some(7),
        cpu_millis: None,
        cpu_weight: None,
        count_io: false,
    };

    #[test]
    fn the_record_lists_exactly_the_cgroups_that_are_made() {
        let Some(Fixture { cgroups, paths, .. }) = &fixture() else { return };

        record(cgroups, paths, &LIMITS, false).unwrap();
        let before = open_cgroups(cgroups, paths).unwrap().existing().unwrap();
        cgroups.make(&paths.name, &LIMITS).unwrap();
        let mut recorded = open_cgroups(cgroups, paths).unwrap().existing().unwrap();
        let mut searched = cgroups.find(&paths.name).unwrap();

        recorded.sort();
        searched.sort();
        assert_eq!((before, &recorded), (Vec::<PathBuf>::new(), &searched));
        assert!(!recorded.is_empty());
    }

    #[test]
    fn an_instance_with_missing_or_truncated_record_is_searched_for() {
        let Some(Fixture { cgroups, paths, .. }) = &fixture() else { return };
        cgroups.make(&paths.name, &LIMITS).unwrap();
        let searched = cgroups.find(&paths.name).unwrap();

        let missing = open_cgroups(cgroups, paths).unwrap().existing().unwrap();
        record(cgroups, paths, &LIMITS, false).unwrap();
        let whole = fs::read_to_string(paths.cgroup_record()).unwrap();
        let truncated = &whole[..whole.find('\n').unwrap() + 1];
        fs::write(paths.cgroup_record(), truncated).unwrap();
        record(cgroups, paths, &LIMITS, false).unwrap();
        let found = open_cgroups(cgroups, paths).unwrap().existing().unwrap();

        assert_eq!((&missing, &found), (&searched, &searched));
        assert_eq!(fs::read_to_string(paths.cgroup_record()).unwrap(), truncated);
    }

    #[test]
    fn recorded_cgroups_are_found_by_a_process_with_another_store() {
        let Some(Fixture { cgroups, paths, .. }) = &fixture() else { return };
        record(cgroups, paths, &LIMITS, false).unwrap();
        cgroups.make(&paths.name, &LIMITS).unwrap();
        let made = cgroups.find(&paths.name).unwrap();

        let other_store = Cgroups::detect("pinfold-note-of-another-store").unwrap();
        let found = open_cgroups(&other_store, paths).unwrap().existing().unwrap();

        assert_eq!(found.len(), made.len(), "found {found:?}, made {made:?}");
    }

    #[test]
    fn the_first_record_includes_older_cgroups() {
        let Some(Fixture { cgroups, paths, .. }) = &fixture() else { return };
        let more = CgroupLimits { cpu_millis: Some(500), ..LIMITS };
        cgroups.make(&paths.name, &more).unwrap();

        record(cgroups, paths, &LIMITS, true).unwrap();

        let found = open_cgroups(cgroups, paths).unwrap().existing().unwrap();
        assert_eq!(found.len(), cgroups.find(&paths.name).unwrap().len());
    }

    #[test]
    fn a_second_launch_adds_to_the_record_of_the_first() {
        let Some(Fixture { cgroups, paths, .. }) = &fixture() else { return };
        let elsewhere = PathBuf::from("/sys/fs/cgroup/elsewhere");
        write(paths, std::slice::from_ref(&elsewhere)).unwrap();

        record(cgroups, paths, &LIMITS, true).unwrap();

        let CgroupRecord::Complete(recorded) = read(paths).unwrap() else { panic!("cut short") };
        assert_eq!(recorded[0], elsewhere);
        assert!(recorded.len() > 1);
    }
}
