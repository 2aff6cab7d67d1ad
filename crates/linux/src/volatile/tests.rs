//! Ground in memory: made by the first, whole after any crash, gone with the last, and never taken for another.

use super::*;

/// Only root has a ground in memory, and only where the host has one.
fn ground() -> Option<tempfile::TempDir> {
    home().map(|_| tempfile::tempdir().unwrap())
}

fn where_it_is(data: &Path) -> PathBuf {
    fs::canonicalize(data.join("control")).unwrap().parent().unwrap().to_path_buf()
}

#[test]
fn what_is_kept_there_is_in_memory_and_goes_with_the_last_who_uses_it() {
    let Some(data) = ground() else { return };
    let first = Volatile::prepare(data.path()).unwrap();
    let second = Volatile::prepare(data.path()).unwrap();
    let path = where_it_is(data.path());
    assert!(HOMES.iter().any(|home| path.starts_with(home)), "{}", path.display());

    drop(first);
    assert!(path.join("ids").is_dir());
    drop(second);
    assert!(!path.exists());
}

#[test]
fn what_is_in_it_is_there_for_the_next_one() {
    let Some(data) = ground() else { return };
    let first = Volatile::prepare(data.path()).unwrap();
    fs::create_dir(data.path().join("control/mark")).unwrap();
    drop(first);

    let next = Volatile::prepare(data.path()).unwrap();
    assert!(data.path().join("control/mark").is_dir());
    fs::remove_dir(data.path().join("control/mark")).unwrap();
    let path = where_it_is(data.path());
    drop(next);
    assert!(!path.exists());
}

#[test]
fn it_is_made_whole_after_a_crash_at_any_step() {
    let Some(data) = ground() else { return };
    let path = home().unwrap().join(format!("pinfold-{:016x}", fresh().unwrap()));
    let intended = format!("{} {}", boot_id().unwrap(), path.display());
    fs::write(data.path().join("volatile"), &intended).unwrap();
    drop(Volatile::prepare(data.path()).unwrap());
    assert!(!path.exists());

    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    fs::write(data.path().join("volatile"), &intended).unwrap();
    let again = Volatile::prepare(data.path()).unwrap();
    assert_eq!(where_it_is(data.path()), path);
    drop(again);
    assert!(!path.exists());
}

#[test]
fn what_another_view_of_the_files_has_made_is_not_taken_for_gone() {
    let Some(data) = ground() else { return };
    let elsewhere = home().unwrap().join(format!("pinfold-{:016x}", fresh().unwrap()));
    let note = format!("{} {} 1 1", boot_id().unwrap(), elsewhere.display());
    fs::write(data.path().join("volatile"), note).unwrap();

    let refused = Volatile::prepare(data.path()).unwrap_err();

    assert!(refused.to_string().contains("another view"), "{refused}");
}

#[test]
fn a_note_from_before_the_last_start_of_the_host_says_nothing() {
    let Some(data) = ground() else { return };
    fs::write(data.path().join("volatile"), "another-boot /run/pinfold-1 1 1").unwrap();
    symlink("/run/pinfold-1/control", data.path().join("control")).unwrap();

    let ready = Volatile::prepare(data.path()).unwrap();

    assert!(data.path().join("control").is_dir());
    drop(ready);
}

#[test]
fn marks_on_the_disk_from_an_older_program_stay_where_they_are() {
    let Some(data) = ground() else { return };
    fs::create_dir_all(data.path().join("control/mark")).unwrap();

    let ready = Volatile::prepare(data.path()).unwrap();

    assert!(!data.path().join("control").is_symlink());
    assert!(data.path().join("ids").is_dir());
    drop(ready);
}
