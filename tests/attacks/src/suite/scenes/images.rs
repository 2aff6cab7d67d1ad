//! Images as traps for whoever sets a root up.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use crate::entry::Verdict;
use crate::stage::{HOSTILE, INSIDE, Stage};

/// A node of the null device among its files.
pub(crate) async fn use_a_device_node(stage: &Stage) -> Result<Verdict, String> {
    let image = image(|root| make_device(&root.join("tmp/node")))?;
    let other = Stage::raise_on(&stage.outside, image.path()).await?;
    let verdict = other.attempt(&["use-a-device-node-of-its-image", "/tmp/node"]).await;
    other.end().await?;
    verdict
}

/// A link in each of these places, to outside and to what the keeper has open while it sets the root up.
pub(crate) async fn links_in_place_of(stage: &Stage, names: &[&str]) -> Result<Verdict, String> {
    let descriptors = (3..12).map(|number| format!("/proc/self/fd/{number}"));
    let targets = descriptors.chain([stage.canary().display().to_string(), "etc".to_owned()]);
    for (name, target) in targets.flat_map(|target| names.iter().map(move |name| (name, target.clone()))) {
        let image = image(|root| {
            fs::remove_dir_all(root.join(name))?;
            symlink(&target, root.join(name))
        })?;
        if let Ok(other) = Stage::raise_on(&stage.outside, image.path()).await {
            other.end().await?;
            return Ok(Verdict::Through(format!("it starts with /{name} as a link to {target}")));
        }
    }
    Ok(Verdict::Held("such an image does not start".into()))
}

/// A runtime that puts a terminal on `/dev/console` follows what the image has there.
pub(crate) async fn console_is_a_link(stage: &Stage) -> Result<Verdict, String> {
    let outside = stage.canary().join("canary");
    let image = image(|root| {
        ["console", "null", "ptmx", "pts"]
            .iter()
            .try_for_each(|name| symlink(&outside, root.join("dev").join(name)))
    })?;
    let other = Stage::raise_on(&stage.outside, image.path()).await?;
    let verdict = other.attempt(&["find-a-console"]).await;
    other.end().await?;
    verdict
}

/// The hostile program and what it needs to run, with the places that every image has.
fn image(furnish: impl FnOnce(&Path) -> io::Result<()>) -> Result<tempfile::TempDir, String> {
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
        furnish(root)
    };
    lay().map_err(|error| error.to_string())?;
    Ok(image)
}

fn make_device(path: &Path) -> io::Result<()> {
    let mode = Mode::from_raw_mode(0o666);
    mknodat(CWD, path, FileType::CharacterDevice, mode, makedev(1, 3))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o666))
}

/// Outside of user namespaces, and without `nodev`, a node is a device.
pub(crate) fn a_device_of_the_host_opens() -> Result<Verdict, String> {
    let place = tempfile::tempdir().map_err(|error| error.to_string())?;
    let node = place.path().join("node");
    make_device(&node).map_err(|error| error.to_string())?;
    Ok(Verdict::through_if(fs::read(&node).is_ok(), "the same node on the host is a device"))
}

/// Files are put into a root by their paths, before it is the root.
pub(crate) fn naive_setup_follows_links() -> Result<Verdict, String> {
    let set_up = || -> io::Result<bool> {
        let (outside, root) = (tempfile::tempdir()?, tempfile::tempdir()?);
        symlink(outside.path(), root.path().join("dev"))?;
        fs::create_dir_all(root.path().join("dev"))?;
        fs::write(root.path().join("dev/console"), "")?;
        Ok(outside.path().join("console").exists())
    };
    Ok(Verdict::through_if(set_up().map_err(|error| error.to_string())?, "it writes where a link points to"))
}
