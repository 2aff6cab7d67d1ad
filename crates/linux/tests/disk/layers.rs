//! Images: read-only layers that sandboxes share, each with its own storage over them.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use pinfold_lifecycle::{Limits, Spec};
use pinfold_linux::{FIRST_LAYER_ID, Layer, StorageKind};
use pinfold_provider::{InstanceId, StartError};

use crate::stage::{Stage, is_root, limited_kinds, memory_holds_marks, nursery};

/// Two layers on disk: a small system, and one over it that hides a file and a directory of it.
struct Shelf {
    directory: tempfile::TempDir,
}

impl Shelf {
    fn new() -> Self {
        let shelf = Self { directory: tempfile::tempdir().unwrap() };
        let (lower, upper) = (shelf.path("lower"), shelf.path("upper"));
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
        fs::write(lower.join("etc/users"), "of somebody else").unwrap();
        fs::create_dir_all(upper.join("etc")).unwrap();
        fs::create_dir_all(upper.join("old")).unwrap();
        fs::write(upper.join("etc/both"), "above").unwrap();
        run("mknod", &[&upper.join("etc/hidden").to_string_lossy(), "c", "0", "0"]);
        let opaque = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(upper.join("old"), "user.overlay.opaque", b"y", opaque).unwrap();
        if is_root() {
            give_away(shelf.directory.path(), FIRST_LAYER_ID);
            let user = Some(FIRST_LAYER_ID + 1_000);
            chown(lower.join("etc/users"), user, user).unwrap();
        }
        shelf
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A layer with a file of its own, and one that every such layer has.
    fn add_thin_layer(&self, name: &str) {
        let etc = self.path(name).join("etc");
        fs::create_dir_all(&etc).unwrap();
        fs::write(etc.join(name), name).unwrap();
        fs::write(etc.join("both"), name).unwrap();
        if is_root() {
            give_away(&self.path(name), FIRST_LAYER_ID);
        }
    }

    fn stage(&self, kind: StorageKind) -> Stage {
        self.stage_of(kind, ["upper", "lower"])
    }

    /// With an image of these layers, the uppermost first.
    fn stage_of(&self, kind: StorageKind, names: impl IntoIterator<Item: AsRef<str>>) -> Stage {
        let first_id = is_root().then_some(FIRST_LAYER_ID);
        let layer = |name: &str| Layer { path: self.path(name), first_id };
        let layers: Vec<_> = names.into_iter().map(|name| layer(name.as_ref())).collect();
        let find = move |name: &str| match name {
            "small" => Ok(layers.clone()),
            _ => Err(std::io::ErrorKind::NotFound.into()),
        };
        let mut stage = Stage::new();
        let provider = stage.another_provider(nursery()).with_storage(kind);
        stage.provider = Arc::new(provider.with_images(Arc::new(find)));
        stage
    }
}

async fn start(stage: &Stage, image: &str) -> (InstanceId, Result<(), StartError>) {
    let limits = Limits { disk_mb: Some(32), ..Limits::default() };
    stage.try_start_as(Spec { image: Some(image.to_owned()), limits, ..Spec::default() }).await
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
async fn layers_are_one_root_with_the_owners_inside_and_what_is_hidden_is_not_there() {
    let shelf = Shelf::new();
    for kind in limited_kinds().into_iter().chain([StorageKind::Directory]) {
        let stage = shelf.stage(kind);
        let (body, started) = start(&stage, "small").await;
        started.unwrap();

        for script in [
            "test $(cat /etc/both) = above -a $(cat /etc/low) = low",
            "test ! -e /etc/hidden -a ! -e /old/file -a -d /old",
            "test $(stat -c %u:%g /etc/low) = 0:0 -a $(stat -c %u:%g /) = 0:0",
            "test ! -e /usr/bin/env",
        ] {
            assert_eq!(stage.code(body, script).await, Some(0), "{kind:?}: {script}");
        }
        if is_root() {
            assert_eq!(stage.code(body, "test $(stat -c %u /etc/users) = 1000").await, Some(0));
        }
        stage.stop(body).await;
    }
}

#[tokio::test]
async fn an_image_of_as_many_layers_as_may_be_imported_shows_them_all_in_their_order() {
    let shelf = Shelf::new();
    let names: Vec<_> = (0..127).map(|number| format!("thin{number}")).collect();
    names.iter().for_each(|name| shelf.add_thin_layer(name));
    // The most that are laid by one text, and more.
    for thin in [32, 39, 127] {
        let layers = names[..thin].iter().map(String::as_str).chain(["lower"]);
        let stage = shelf.stage_of(StorageKind::Memory, layers);
        let (body, started) = start(&stage, "small").await;
        started.unwrap();

        let in_order = "test $(cat /etc/low) = low -a $(cat /etc/both) = thin0 -a $(cat /etc/thin0) = thin0";
        assert_eq!(stage.code(body, in_order).await, Some(0), "{thin}");
        let all = format!("n=0; while test -e /etc/thin$n; do n=$((n + 1)); done; test $n = {thin}");
        assert_eq!(stage.code(body, &all).await, Some(0), "{thin}");
        stage.stop(body).await;
    }
}

#[tokio::test]
async fn a_layer_that_an_image_has_twice_counts_where_it_is_uppermost() {
    let shelf = Shelf::new();
    let stage = shelf.stage_of(StorageKind::Memory, ["upper", "lower", "upper"]);

    let (body, started) = start(&stage, "small").await;

    started.unwrap();
    let script = "test $(cat /etc/both) = above -a $(cat /etc/low) = low -a ! -e /etc/hidden";
    assert_eq!(stage.code(body, script).await, Some(0));
    stage.stop(body).await;
}

#[tokio::test]
async fn what_is_changed_inside_is_changed_for_one_sandbox_and_not_in_the_layer() {
    let shelf = Shelf::new();
    let can_keep_it = |kind: &StorageKind| *kind != StorageKind::Memory || memory_holds_marks();
    for kind in limited_kinds().into_iter().chain([StorageKind::Directory]).filter(can_keep_it) {
        let stage = shelf.stage(kind);
        let (first, started) = start(&stage, "small").await;
        started.unwrap();
        let (second, started) = start(&stage, "small").await;
        started.unwrap();

        let change = "echo new > /etc/low && rm /etc/both && rm -r /old && mkdir /old && touch /old/mine";
        assert_eq!(stage.code(first, change).await, Some(0), "{kind:?}");

        let changed = "test $(cat /etc/low) = new -a ! -e /etc/both -a -e /old/mine -a ! -e /old/file";
        assert_eq!(stage.code(first, changed).await, Some(0), "{kind:?}");
        let unchanged = "test $(cat /etc/low) = low -a $(cat /etc/both) = above -a ! -e /old/mine";
        assert_eq!(stage.code(second, unchanged).await, Some(0), "{kind:?}");
        assert_eq!(fs::read_to_string(shelf.path("lower/etc/low")).unwrap(), "low");
        assert!(shelf.path("upper/etc/both").exists() && shelf.path("lower/old/file").exists());
        let owner = fs::metadata(shelf.path("lower/etc/low")).unwrap().uid();
        assert_eq!(owner, if is_root() { FIRST_LAYER_ID } else { rustix::process::getuid().as_raw() });
    }
}

#[tokio::test]
async fn an_image_that_is_not_here_is_named_and_leaves_nothing() {
    let shelf = Shelf::new();
    let stage = shelf.stage(StorageKind::Memory);

    let (body, started) = start(&stage, "other").await;

    assert!(matches!(started, Err(StartError::Failed { .. })), "{started:?}");
    stage.stop(body).await;
}

#[tokio::test]
async fn a_link_in_the_place_of_a_directory_that_must_be_covered_is_refused() {
    for name in ["proc", "sys", "dev", "tmp", "workspace"] {
        let shelf = Shelf::new();
        std::os::unix::fs::symlink("/etc", shelf.path("upper").join(name)).unwrap();
        let stage = shelf.stage(StorageKind::Memory);

        let (body, started) = start(&stage, "small").await;

        let Err(StartError::Failed { why }) = started else { panic!("{name}: {started:?}") };
        assert!(why.contains(&format!("could not use `/{name}`")), "{why}");
        stage.stop(body).await;
    }
}
