//! Where the groups of a body are, written down before they are made. Only a body without such a note has to be
//! searched for in all groups of the host.

use std::fs;
use std::io;
use std::path::PathBuf;

use crate::cgroup::{BodyCgroup, CgroupLimits, Cgroups};
use crate::places::Places;

/// The last line. A note without it was cut short, and counts as none.
const WHOLE: &str = "whole";

/// Adds what is about to be made to what others have made before. `may_be_older`: the mark was there before, so that
/// there may be groups from before the first note.
pub(crate) fn note(
    cgroups: &Cgroups,
    places: &Places,
    limits: &CgroupLimits,
    may_be_older: bool,
) -> io::Result<()> {
    let planned = cgroups.places_for(&places.name, limits).map_err(io::Error::other)?;
    let mut directories = match read(places)? {
        Note::Whole(known) => known,
        Note::Missing if may_be_older => cgroups.look(&places.name).map_err(io::Error::other)?,
        Note::Missing => Vec::new(),
        // It stays so: nobody knows what else it said.
        Note::CutShort => return Ok(()),
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
    write(places, &directories)
}

/// The groups of a body, by its note or else by a search.
pub(crate) fn groups_of(cgroups: &Cgroups, places: &Places) -> io::Result<BodyCgroup> {
    if let Note::Whole(directories) = read(places)?
        && let Some(groups) = cgroups.open_at(&places.name, &directories).map_err(io::Error::other)?
    {
        return Ok(groups);
    }
    cgroups.open(&places.name).map_err(io::Error::other)
}

#[derive(Debug, PartialEq, Eq)]
enum Note {
    Missing,
    CutShort,
    Whole(Vec<PathBuf>),
}

fn read(places: &Places) -> io::Result<Note> {
    let text = match fs::read_to_string(places.groups()) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Note::Missing),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => return Ok(Note::CutShort),
        Err(error) => return Err(error),
    };
    let mut lines: Vec<&str> = text.split_terminator('\n').collect();
    if !text.ends_with('\n') || lines.pop() != Some(WHOLE) {
        return Ok(Note::CutShort);
    }
    Ok(Note::Whole(lines.into_iter().map(PathBuf::from).collect()))
}

fn write(places: &Places, directories: &[PathBuf]) -> io::Result<()> {
    let mut text = String::new();
    for directory in directories {
        // Mount points and groups of ours have no such names; if one had, the search would still find it.
        match directory.to_str().filter(|path| !path.contains('\n')) {
            Some(path) => text.push_str(&format!("{path}\n")),
            None => return fs::write(places.groups(), ""),
        }
    }
    text.push_str(&format!("{WHOLE}\n"));
    fs::write(places.groups(), text)
}

#[cfg(test)]
mod tests {
    use pinfold_lifecycle::{Generation, SandboxId};
    use pinfold_provider::InstanceId;

    use super::*;
    use crate::cgroup::Ability;
    use crate::places::{Grounds, make};

    /// Groups of a base that no other test has, and removed with it.
    struct Ground {
        _data: tempfile::TempDir,
        cgroups: Cgroups,
        places: Places,
    }

    impl Drop for Ground {
        fn drop(&mut self) {
            let _ =
                self.cgroups.open(&self.places.name).map(|it| it.remove(std::time::Duration::from_secs(5)));
            let _ = self.cgroups.remove_empty_bases();
        }
    }

    /// None: this process may make no groups.
    fn ground() -> Option<Ground> {
        let data = tempfile::tempdir().unwrap();
        let body = InstanceId { sandbox: SandboxId(1), generation: Generation(1) };
        let places = Grounds::on_disk(data.path()).unwrap().of(body);
        make(&places.control, 0o700).unwrap();
        let base = data.path().file_name().unwrap().to_string_lossy().replace(".tmp", "pinfold-note-");
        let cgroups = Cgroups::detect(&base).unwrap();
        let ground = Ground { _data: data, cgroups, places };
        matches!(ground.cgroups.abilities().kill, Ability::Enforced { .. }).then_some(ground)
    }

    const LIMITS: CgroupLimits = CgroupLimits {
        memory_bytes: None,
        processes: Some(7),
        cpu_millis: None,
        cpu_weight: None,
        count_io: false,
    };

    #[test]
    fn a_note_tells_of_exactly_what_is_made() {
        let Some(Ground { cgroups, places, .. }) = &ground() else { return };

        note(cgroups, places, &LIMITS, false).unwrap();
        let before = groups_of(cgroups, places).unwrap().look().unwrap();
        cgroups.make(&places.name, &LIMITS).unwrap();
        let mut noted = groups_of(cgroups, places).unwrap().look().unwrap();
        let mut searched = cgroups.look(&places.name).unwrap();

        noted.sort();
        searched.sort();
        assert_eq!((before, &noted), (Vec::<PathBuf>::new(), &searched));
        assert!(!noted.is_empty());
    }

    #[test]
    fn a_body_whose_note_is_missing_or_cut_short_is_searched_for() {
        let Some(Ground { cgroups, places, .. }) = &ground() else { return };
        cgroups.make(&places.name, &LIMITS).unwrap();
        let searched = cgroups.look(&places.name).unwrap();

        let missing = groups_of(cgroups, places).unwrap().look().unwrap();
        note(cgroups, places, &LIMITS, false).unwrap();
        let whole = fs::read_to_string(places.groups()).unwrap();
        let cut_short = &whole[..whole.find('\n').unwrap() + 1];
        fs::write(places.groups(), cut_short).unwrap();
        note(cgroups, places, &LIMITS, false).unwrap();
        let found = groups_of(cgroups, places).unwrap().look().unwrap();

        assert_eq!((&missing, &found), (&searched, &searched));
        assert_eq!(fs::read_to_string(places.groups()).unwrap(), cut_short);
    }

    #[test]
    fn groups_from_before_the_first_note_are_in_it() {
        let Some(Ground { cgroups, places, .. }) = &ground() else { return };
        let more = CgroupLimits { cpu_millis: Some(500), ..LIMITS };
        cgroups.make(&places.name, &more).unwrap();

        note(cgroups, places, &LIMITS, true).unwrap();

        let found = groups_of(cgroups, places).unwrap().look().unwrap();
        assert_eq!(found.len(), cgroups.look(&places.name).unwrap().len());
    }

    #[test]
    fn a_second_maker_adds_to_what_the_first_has_noted() {
        let Some(Ground { cgroups, places, .. }) = &ground() else { return };
        let elsewhere = PathBuf::from("/sys/fs/cgroup/elsewhere");
        write(places, std::slice::from_ref(&elsewhere)).unwrap();

        note(cgroups, places, &LIMITS, true).unwrap();

        let Note::Whole(noted) = read(places).unwrap() else { panic!("cut short") };
        assert_eq!(noted[0], elsewhere);
        assert!(noted.len() > 1);
    }
}
