//! Images: read-only layers that sandboxes share, each with its own storage over them.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use pinfold_lifecycle::{Limits, Spec};
use pinfold_linux::{FIRST_LAYER_ID, RootLayer, StorageKind};
use pinfold_provider::{InstanceId, StartError};

use crate::fixture::{Fixture, is_root, limited_kinds, spawner, tmpfs_has_user_xattrs};

/// Two layers on disk: a small system, and one over it that hides a file and a directory.
struct ImageLayers {
    directory: tempfile::TempDir,
}

impl ImageLayers {
    fn new() -> Self {
        let image_layers = Self { directory: tempfile::tempdir().unwrap() };
        let (lower, upper) = (image_layers.path("lower"), image_layers.path("upper"));
        for directory in ["bin", "lib", "lib64", "etc", "old", "usr/bin"] {
            fs::create_dir_all(lower.join(directory)).unwrap();
        }
        for program in ["sh", "cat", "stat", "test", "rm", "touch", "sleep", "true", "mkdir"] {
            copy_with_libraries(program, &lower);
        }
        fs::write(lower.join("etc/low"), "low").unwrap();
        fs::write(lower.join("etc/both"), "below").unwrap();
        fs::write(lower.join("etc/hidden"), "hidden").unwrap();
        fs::write(lower.join("old/file"), "old").unwrap();
        fs::write(lower.join("etc/users"), "of another user").unwrap();
        fs::create_dir_all(upper.join("etc")).unwrap();
        fs::create_dir_all(upper.join("old")).unwrap();
        fs::write(upper.join("etc/both"), "above").unwrap();
        run("mknod", &[&upper.join("etc/hidden").to_string_lossy(), "c", "0", "0"]);
        let opaque = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(upper.join("old"), "user.overlay.opaque", b"y", opaque).unwrap();
        if is_root() {
            give_away(image_layers.directory.path(), FIRST_LAYER_ID);
            let user = Some(FIRST_LAYER_ID + 1_000);
            chown(lower.join("etc/users"), user, user).unwrap();
        }
        image_layers
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A layer with a file of its own, and one file that every such layer has.
    fn add_thin_layer(&self, name: &str) {
        let etc = self.path(name).join("etc");
        fs::create_dir_all(&etc).unwrap();
        fs::write(etc.join(name), name).unwrap();
        fs::write(etc.join("both"), name).unwrap();
        if is_root() {
            give_away(&self.path(name), FIRST_LAYER_ID);
        }
    }

    fn fixture(&self, kind: StorageKind) -> Fixture {
        self.fixture_of(kind, ["upper", "lower"])
    }

    /// A fixture with an image of these layers, uppermost first.
    fn fixture_of(&self, kind: StorageKind, names: impl IntoIterator<Item: AsRef<str>>) -> Fixture {
        let first_id = is_root().then_some(FIRST_LAYER_ID);
        let layer = |name: &str| RootLayer { path: self.path(name), first_id };
        let layers: Vec<_> = names.into_iter().map(|name| layer(name.as_ref())).collect();
        let find = move |name: &str| match name {
            "small" => Ok(layers.clone()),
            _ => Err(std::io::ErrorKind::NotFound.into()),
        };
        let mut fixture = Fixture::new();
        let provider = fixture.another_provider(spawner()).with_storage(kind);
        fixture.provider = Arc::new(provider.with_images(Arc::new(find)));
        fixture
    }
}

async fn start(fixture: &Fixture, image: &str) -> (InstanceId, Result<(), StartError>) {
    let limits = Limits { disk_mb: Some(32), ..Limits::default() };
    fixture.try_start_as(Spec { image: Some(image.to_owned()), limits, ..Spec::default() }).await
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn copy_with_libraries(program: &str, root: &Path) {
    let path = format!("/usr/bin/{program}");
    fs::copy(&path, root.join("bin").join(program)).unwrap();
    for word in run("ldd", &[&path]).split_whitespace().filter(|word| word.starts_with('/')) {
        let to = root.join(word.trim_start_matches('/'));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(word, to).unwrap();
    }
}

fn give_away(path: &Path, to: u32) {
    std::os::unix::fs::lchown(path, Some(to), Some(to)).unwrap();
    if path.is_dir() && !path.is_symlink() {
        for entry in fs::read_dir(path).unwrap() {
            give_away(&entry.unwrap().path(), to);
        }
    }
}

#[tokio::test]
async fn layers_form_one_root_with_mapped_owners_and_whiteouts() {
    let image_layers = ImageLayers::new();
    for kind in limited_kinds().into_iter().chain([StorageKind::Directory]) {
        let fixture = image_layers.fixture(kind);
        let (instance, started) = start(&fixture, "small").await;
        started.unwrap();

        for script in [
            "test $(cat /etc/both) = above -a $(cat /etc/low) = low",
            "test ! -e /etc/hidden -a ! -e /old/file -a -d /old",
            "test $(stat -c %u:%g /etc/low) = 0:0 -a $(stat -c %u:%g /) = 0:0",
            "test ! -e /usr/bin/env",
        ] {
            assert_eq!(fixture.code(instance, script).await, Some(0), "{kind:?}: {script}");
        }
        if is_root() {
            assert_eq!(fixture.code(instance, "test $(stat -c %u /etc/users) = 1000").await, Some(0));
        }
        fixture.stop(instance).await;
    }
}

#[tokio::test]
async fn an_image_with_the_maximum_number_of_layers_shows_all_in_order() {
    let image_layers = ImageLayers::new();
    let names: Vec<_> = (0..127).map(|number| format!("thin{number}")).collect();
    names.iter().for_each(|name| image_layers.add_thin_layer(name));
    // The maximum that one mount option string holds, and more.
    for thin in [32, 39, 127] {
        let layers = names[..thin].iter().map(String::as_str).chain(["lower"]);
        let fixture = image_layers.fixture_of(StorageKind::Memory, layers);
        let (instance, started) = start(&fixture, "small").await;
        started.unwrap();

        let in_order = "test $(cat /etc/low) = low -a $(cat /etc/both) = thin0 -a $(cat /etc/thin0) = thin0";
        assert_eq!(fixture.code(instance, in_order).await, Some(0), "{thin}");
        let all = format!("n=0; while test -e /etc/thin$n; do n=$((n + 1)); done; test $n = {thin}");
        assert_eq!(fixture.code(instance, &all).await, Some(0), "{thin}");
        fixture.stop(instance).await;
    }
}

#[tokio::test]
async fn of_two_equal_layers_the_uppermost_counts() {
    let image_layers = ImageLayers::new();
    let fixture = image_layers.fixture_of(StorageKind::Memory, ["upper", "lower", "upper"]);

    let (instance, started) = start(&fixture, "small").await;

    started.unwrap();
    let script = "test $(cat /etc/both) = above -a $(cat /etc/low) = low -a ! -e /etc/hidden";
    assert_eq!(fixture.code(instance, script).await, Some(0));
    fixture.stop(instance).await;
}

#[tokio::test]
async fn changes_inside_affect_one_sandbox_and_not_the_layer() {
    let image_layers = ImageLayers::new();
    let can_keep_it = |kind: &StorageKind| *kind != StorageKind::Memory || tmpfs_has_user_xattrs();
    for kind in limited_kinds().into_iter().chain([StorageKind::Directory]).filter(can_keep_it) {
        let fixture = image_layers.fixture(kind);
        let (first, started) = start(&fixture, "small").await;
        started.unwrap();
        let (second, started) = start(&fixture, "small").await;
        started.unwrap();

        let change = "echo new > /etc/low && rm /etc/both && rm -r /old && mkdir /old && touch /old/mine";
        assert_eq!(fixture.code(first, change).await, Some(0), "{kind:?}");

        let changed = "test $(cat /etc/low) = new -a ! -e /etc/both -a -e /old/mine -a ! -e /old/file";
        assert_eq!(fixture.code(first, changed).await, Some(0), "{kind:?}");
        let unchanged = "test $(cat /etc/low) = low -a $(cat /etc/both) = above -a ! -e /old/mine";
        assert_eq!(fixture.code(second, unchanged).await, Some(0), "{kind:?}");
        assert_eq!(fs::read_to_string(image_layers.path("lower/etc/low")).unwrap(), "low");
        assert!(image_layers.path("upper/etc/both").exists() && image_layers.path("lower/old/file").exists());
        let owner = fs::metadata(image_layers.path("lower/etc/low")).unwrap().uid();
        assert_eq!(owner, if is_root() { FIRST_LAYER_ID } else { rustix::process::getuid().as_raw() });
    }
}

#[tokio::test]
async fn a_missing_image_is_named_and_leaves_nothing_behind() {
    let image_layers = ImageLayers::new();
    let fixture = image_layers.fixture(StorageKind::Memory);

    let (instance, started) = start(&fixture, "other").await;

    assert!(matches!(started, Err(StartError::Failed { .. })), "{started:?}");
    fixture.stop(instance).await;
}

#[tokio::test]
async fn a_symlink_in_place_of_a_mount_point_is_refused() {
    for name in ["proc", "sys", "dev", "tmp", "workspace"] {
        let image_layers = ImageLayers::new();
        std::os::unix::fs::symlink("/etc", image_layers.path("upper").join(name)).unwrap();
        let fixture = image_layers.fixture(StorageKind::Memory);

        let (instance, started) = start(&fixture, "small").await;

        let Err(StartError::Failed { why }) = started else { panic!("{name}: {started:?}") };
        assert!(why.contains(&format!("could not use `/{name}`")), "{why}");
        fixture.stop(instance).await;
    }
}
