//! Images that go: not while they are used, and with them the layers that nobody else has.

use std::fs;

use pinfold_images::RemoveError;

use super::archive::{Archive, gzip};
use super::bundles::oci;
use super::stage::Stage;

fn nobody(_: &pinfold_images::ImageId) -> Vec<String> {
    vec![]
}

#[test]
fn a_layer_goes_with_the_last_image_that_has_it() {
    let stage = Stage::new();
    let layer = |name: &str| Archive::new().file(name, name).done();
    stage.import(&oci(&[layer("base"), layer("one")], gzip).tar(), "one").unwrap();
    let two = stage.import(&oci(&[layer("base"), layer("two")], gzip).tar(), "two").unwrap();
    assert_eq!(stage.layer_count(), 3);

    stage.images.remove("one", nobody).unwrap();

    assert_eq!(stage.layer_count(), 2);
    for root in stage.images.layers(&two.id).unwrap() {
        assert!(root.is_dir());
    }
    stage.images.remove("two", nobody).unwrap();
    assert_eq!(stage.layer_count(), 0);
    stage.assert_nothing_unfinished();
}

#[test]
fn an_image_in_use_stays_and_the_answer_says_by_whom() {
    let stage = Stage::new();
    let image = stage.import(&Archive::new().file("x", "").done(), "app").unwrap();

    let error = stage.images.remove("app", |id| vec![format!("sandbox of {}", id.short())]).unwrap_err();

    let RemoveError::InUse { by, .. } = &error else { panic!("{error}") };
    assert_eq!(by, &[format!("sandbox of {}", image.id.short())]);
    assert_eq!(stage.images.list().unwrap(), [image]);
}

#[test]
fn a_name_of_an_image_in_use_goes_while_it_has_another() {
    let stage = Stage::new();
    let bytes = Archive::new().file("x", "").done();
    let image = stage.import(&bytes, "one").unwrap();
    stage.import(&bytes, "two").unwrap();

    let removed = stage.images.remove("one", |_| vec!["somebody".to_owned()]).unwrap();

    assert!(!removed.last_name);
    assert!(stage.images.layers(&image.id).unwrap()[0].is_dir());
    assert!(stage.images.remove("two", |_| vec!["somebody".to_owned()]).is_err());
    assert!(stage.images.remove("two", nobody).unwrap().last_name);
}

#[test]
fn what_is_not_there_cannot_be_removed() {
    let stage = Stage::new();

    assert!(matches!(stage.images.remove("nothing", nobody), Err(RemoveError::Missing { .. })));
    assert!(matches!(stage.images.remove("host", nobody), Err(RemoveError::Name(_))));
    assert!(matches!(stage.images.remove("../names", nobody), Err(RemoveError::Name(_))));
}

#[test]
fn a_damaged_record_is_named_and_takes_no_layer_with_it() {
    let stage = Stage::new();
    stage.import(&Archive::new().file("x", "").done(), "app").unwrap();
    stage.import(&Archive::new().file("y", "").done(), "other").unwrap();
    let record = stage.path("images/names/app.json");
    fs::write(&record, "{").unwrap();

    let error = stage.images.list().unwrap_err();

    assert!(error.to_string().contains("app.json"), "{error}");
    assert!(stage.images.remove("other", nobody).is_err());
    assert_eq!(stage.layer_count(), 2);
}

#[test]
fn imports_and_removals_at_once_leave_every_named_image_whole() {
    let stage = Stage::new();
    let layer = |name: &str| Archive::new().file(name, name).done();
    let sources: Vec<_> = ["a", "b", "c"]
        .map(|name| {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("image.tar");
            fs::write(&path, oci(&[layer("base"), layer(name)], gzip).tar()).unwrap();
            (name, path, directory)
        })
        .into();

    std::thread::scope(|scope| {
        for (name, path, _directory) in &sources {
            scope.spawn(|| {
                for _ in 0..8 {
                    let image = stage.images.import(path, name).unwrap();
                    for root in stage.images.layers(&image.id).unwrap() {
                        assert!(root.is_dir());
                    }
                    stage.images.remove(name, nobody).unwrap();
                }
            });
        }
    });

    assert_eq!(stage.images.list().unwrap(), []);
    assert_eq!(stage.layer_count(), 0);
    stage.assert_nothing_unfinished();
}
