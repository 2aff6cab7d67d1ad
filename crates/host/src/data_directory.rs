//! The data directory: made for this user alone, and refused where other users can write. What it holds decides which
//! programs are started and which files are removed, so another user who can put files there can act as this one.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum DataDirectoryError {
    #[error("could not make the data directory `{}`", path.display())]
    Make { path: PathBuf, source: io::Error },
    #[error(
        "other users can write to the data directory `{}` (mode {mode:04o}); look at what is in it, then take that right \
         away with `chmod go-rwx {}`",
        path.display(), path.display()
    )]
    OthersWrite { path: PathBuf, mode: u32 },
    #[error(
        "the data directory `{}` (mode {mode:04o}) belongs to the user with id {owner}; use one of your own, or run \
         `chown {own} {}`",
        path.display(), path.display()
    )]
    OfAnother { path: PathBuf, mode: u32, owner: u32, own: u32 },
}

const STICKY: u32 = 0o1000;
const WRITTEN_BY_OTHERS: u32 = 0o022;

/// Makes the directory, or checks the one that is there and takes the rights of others away.
pub(crate) fn prepare(data: &Path) -> Result<(), DataDirectoryError> {
    let failed = |source| DataDirectoryError::Make { path: data.to_owned(), source };
    match fs::metadata(data) {
        Ok(found) => check(data, found.mode() & 0o7777, found.uid(), rustix::process::geteuid().as_raw())?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    pinfold_private_files::make_directory(data).map_err(failed)
}

/// Root may do anything anyway, so its directory is trusted. With the sticky bit others cannot replace what this user has
/// put there.
fn check(data: &Path, mode: u32, owner: u32, own: u32) -> Result<(), DataDirectoryError> {
    let path = || data.to_owned();
    if owner != own && owner != 0 {
        return Err(DataDirectoryError::OfAnother { path: path(), mode, owner, own });
    }
    if mode & WRITTEN_BY_OTHERS != 0 && !(mode & STICKY != 0 && owner == own) {
        return Err(DataDirectoryError::OthersWrite { path: path(), mode });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn with_mode(mode: u32) -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(mode)).unwrap();
        place
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn directory_that_others_can_read_is_tightened() {
        let place = with_mode(0o755);

        prepare(place.path()).unwrap();

        assert_eq!(mode(place.path()), 0o700);
    }

    #[test]
    fn directory_that_others_can_write_is_refused_with_path_mode_and_fix() {
        for wide in [0o777, 0o775, 0o702] {
            let place = with_mode(wide);

            let refusal = prepare(place.path()).unwrap_err().to_string();

            assert!(refusal.contains(&place.path().display().to_string()), "{refusal}");
            assert!(
                refusal.contains(&format!("{wide:04o}")) && refusal.contains("chmod go-rwx"),
                "{refusal}"
            );
            assert_eq!(mode(place.path()), wide, "it is left as it is");
        }
    }

    #[test]
    fn directory_of_another_user_is_refused_unless_it_is_roots() {
        let of = |owner| check(Path::new("/data"), 0o755, owner, 1000);

        assert!(of(1000).is_ok() && of(0).is_ok());
        assert!(matches!(of(1001), Err(DataDirectoryError::OfAnother { owner: 1001, .. })));
    }

    #[test]
    fn missing_directory_is_made_for_this_user_alone() {
        let place = tempfile::tempdir().unwrap();

        prepare(&place.path().join("a/data")).unwrap();

        assert_eq!(mode(&place.path().join("a/data")), 0o700);
    }
}
