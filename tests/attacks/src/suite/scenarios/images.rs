//! Images as attacks on the setup of the root file system.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use crate::entry::Verdict;
use crate::fixture::{Fixture, HOSTILE, INSIDE};

/// A device node of `/dev/null` among its files.
pub(crate) async fn use_a_device_node(fixture: &Fixture) -> Result<Verdict, String> {
    let image = image(|root| make_device(&root.join("tmp/node")))?;
    let other = Fixture::start_on_image(&fixture.targets, image.path()).await?;
    let verdict = other.attempt(&["use-a-device-node-of-its-image", "/tmp/node"]).await;
    other.end().await?;
    verdict
}

/// Links in these places, to the host and to what the keeper has open during setup.
pub(crate) async fn links_in_place_of(fixture: &Fixture, names: &[&str]) -> Result<Verdict, String> {
    let descriptors = (3..12).map(|number| format!("/proc/self/fd/{number}"));
    let targets = descriptors.chain([fixture.canary().display().to_string(), "etc".to_owned()]);
    for (name, target) in targets.flat_map(|target| names.iter().map(move |name| (name, target.clone()))) {
        let image = image(|root| {
            fs::remove_dir_all(root.join(name))?;
            symlink(&target, root.join(name))
        })?;
        if let Ok(other) = Fixture::start_on_image(&fixture.targets, image.path()).await {
            other.end().await?;
            return Ok(Verdict::Through(format!("it starts with /{name} as a link to {target}")));
        }
    }
    Ok(Verdict::Held("such an image does not start".into()))
}

/// A runtime that puts a terminal on `/dev/console` follows what the image has there.
pub(crate) async fn console_is_a_link(fixture: &Fixture) -> Result<Verdict, String> {
    let targets = fixture.canary().join("canary");
    let image = image(|root| {
        ["console", "null", "ptmx", "pts"]
            .iter()
            .try_for_each(|name| symlink(&targets, root.join("dev").join(name)))
    })?;
    let other = Fixture::start_on_image(&fixture.targets, image.path()).await?;
    let verdict = other.attempt(&["find-a-console"]).await;
    other.end().await?;
    verdict
}

/// An image with the hostile program, its libraries, and the directories that every image has.
fn image(add_files: impl FnOnce(&Path) -> io::Result<()>) -> Result<tempfile::TempDir, String> {
    let image = tempfile::tempdir().map_err(|error| error.to_string())?;
    let root = image.path();
    let lay = || -> io::Result<()> {
        fs::set_permissions(root, fs::Permissions::from_mode(0o755))?;
        for name in ["dev", "proc", "sys", "tmp", "etc", "workspace"] {
            fs::create_dir(root.join(name))?;
        }
        fs::copy(HOSTILE, root.join(INSIDE.trim_start_matches('/')))?;
        let libraries = Command::new("ldd").arg(HOSTILE).output()?.stdout;
        for path in
            String::from_utf8_lossy(&libraries).split_whitespace().filter(|word| word.starts_with('/'))
        {
            let to = root.join(path.trim_start_matches('/'));
            to.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::copy(path, to)?;
        }
        add_files(root)
    };
    lay().map_err(|error| error.to_string())?;
    Ok(image)
}

fn make_device(path: &Path) -> io::Result<()> {
    let mode = Mode::from_raw_mode(0o666);
    mknodat(CWD, path, FileType::CharacterDevice, mode, makedev(1, 3))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o666))
}

/// Outside of user namespaces and without `nodev`, a node is a device.
pub(crate) fn a_device_of_the_host_opens() -> Result<Verdict, String> {
    let place = tempfile::tempdir().map_err(|error| error.to_string())?;
    let node = place.path().join("node");
    make_device(&node).map_err(|error| error.to_string())?;
    Ok(Verdict::through_if(fs::read(&node).is_ok(), "the same node on the host is a device"))
}

/// A naive setup writes files into the root by path, before it has changed to it.
pub(crate) fn naive_setup_follows_links() -> Result<Verdict, String> {
    let set_up = || -> io::Result<bool> {
        let (targets, root) = (tempfile::tempdir()?, tempfile::tempdir()?);
        symlink(targets.path(), root.path().join("dev"))?;
        fs::create_dir_all(root.path().join("dev"))?;
        fs::write(root.path().join("dev/console"), "")?;
        Ok(targets.path().join("console").exists())
    };
    Ok(Verdict::through_if(set_up().map_err(|error| error.to_string())?, "it writes where a link points to"))
}
