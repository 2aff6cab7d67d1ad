//! Runtime directory: created by the first process, completed after any crash, removed by the last, never confused
//! with another.

use super::*;

/// `None`: not root, or no tmpfs on this host.
fn fixture() -> Option<tempfile::TempDir> {
    tmpfs_root().map(|_| tempfile::tempdir().unwrap())
}

fn tmpfs_path(data: &Path) -> PathBuf {
    fs::canonicalize(data.join("control")).unwrap().parent().unwrap().to_path_buf()
}

#[test]
fn directory_is_on_tmpfs_and_is_removed_with_its_last_user() {
    let Some(data) = fixture() else { return };
    let first = RuntimeDir::prepare(data.path()).unwrap();
    let second = RuntimeDir::prepare(data.path()).unwrap();
    let path = tmpfs_path(data.path());
    assert!(TMPFS_CANDIDATES.iter().any(|tmpfs_root| path.starts_with(tmpfs_root)), "{}", path.display());

    drop(first);
    assert!(path.join("ids").is_dir());
    drop(second);
    assert!(!path.exists());
}

#[test]
fn content_survives_until_the_next_user() {
    let Some(data) = fixture() else { return };
    let first = RuntimeDir::prepare(data.path()).unwrap();
    fs::create_dir(data.path().join("control/v1.x.1")).unwrap();
    drop(first);

    let next = RuntimeDir::prepare(data.path()).unwrap();
    assert!(data.path().join("control/v1.x.1").is_dir());
    fs::remove_dir(data.path().join("control/v1.x.1")).unwrap();
    let path = tmpfs_path(data.path());
    drop(next);
    assert!(!path.exists());
}

#[test]
fn directory_is_completed_after_a_crash_at_any_step() {
    let Some(data) = fixture() else { return };
    let path = tmpfs_root().unwrap().join(format!("pinfold-{:016x}", random_u64().unwrap()));
    let creating = format!("{} {}", boot_id().unwrap(), path.display());
    fs::write(data.path().join("runtime_dir"), &creating).unwrap();
    drop(RuntimeDir::prepare(data.path()).unwrap());
    assert!(!path.exists());

    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    fs::write(data.path().join("runtime_dir"), &creating).unwrap();
    let again = RuntimeDir::prepare(data.path()).unwrap();
    assert_eq!(tmpfs_path(data.path()), path);
    drop(again);
    assert!(!path.exists());
}

#[test]
fn directory_of_another_mount_namespace_is_refused() {
    let Some(data) = fixture() else { return };
    let elsewhere = tmpfs_root().unwrap().join(format!("pinfold-{:016x}", random_u64().unwrap()));
    let record = format!("{} {} 1 1", boot_id().unwrap(), elsewhere.display());
    fs::write(data.path().join("runtime_dir"), record).unwrap();

    let refused = RuntimeDir::prepare(data.path()).unwrap_err();

    assert!(refused.to_string().contains("another view"), "{refused}");
}

#[test]
fn record_from_before_the_last_boot_is_ignored() {
    let Some(data) = fixture() else { return };
    fs::write(data.path().join("runtime_dir"), "another-boot /run/pinfold-1 1 1").unwrap();
    symlink("/run/pinfold-1/control", data.path().join("control")).unwrap();

    let ready = RuntimeDir::prepare(data.path()).unwrap();

    assert!(data.path().join("control").is_dir());
    drop(ready);
}

#[test]
fn control_directories_on_disk_stay_there() {
    let Some(data) = fixture() else { return };
    fs::create_dir_all(data.path().join("control/v1.x.1")).unwrap();

    let ready = RuntimeDir::prepare(data.path()).unwrap();

    assert!(!data.path().join("control").is_symlink());
    assert!(data.path().join("ids").is_dir());
    drop(ready);
}
