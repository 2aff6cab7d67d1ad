//! Removal: an image in use stays, and the last image of a layer takes the layer with it.

use std::fs;

use pinfold_images::RemoveError;

use super::archive::{Archive, gzip};
use super::bundles::oci;
use super::fixture::Fixture;

fn no_users(_: &pinfold_images::ImageId) -> Vec<String> {
    vec![]
}

#[test]
fn a_layer_is_deleted_with_the_last_image_that_has_it() {
    let fixture = Fixture::new();
    let layer = |name: &str| Archive::new().file(name, name).done();
    fixture.import(&oci(&[layer("base"), layer("one")], gzip).tar(), "one").unwrap();
    let two = fixture.import(&oci(&[layer("base"), layer("two")], gzip).tar(), "two").unwrap();
    assert_eq!(fixture.layer_count(), 3);

    fixture.images.remove("one", no_users).unwrap();

    assert_eq!(fixture.layer_count(), 2);
    for root in fixture.images.layers(&two.id).unwrap() {
        assert!(root.is_dir());
    }
    fixture.images.remove("two", no_users).unwrap();
    assert_eq!(fixture.layer_count(), 0);
    fixture.assert_nothing_unfinished();
}

#[test]
fn removing_an_image_in_use_fails_and_names_its_users() {
    let fixture = Fixture::new();
    let image = fixture.import(&Archive::new().file("x", "").done(), "app").unwrap();

    let error = fixture.images.remove("app", |id| vec![format!("sandbox of {}", id.short())]).unwrap_err();

    let RemoveError::InUse { by, .. } = &error else { panic!("{error}") };
    assert_eq!(by, &[format!("sandbox of {}", image.id.short())]);
    assert_eq!(fixture.images.list().unwrap(), [image]);
}

#[test]
fn a_name_of_an_image_in_use_is_removed_while_another_name_remains() {
    let fixture = Fixture::new();
    let bytes = Archive::new().file("x", "").done();
    let image = fixture.import(&bytes, "one").unwrap();
    fixture.import(&bytes, "two").unwrap();

    let removed = fixture.images.remove("one", |_| vec!["a sandbox".to_owned()]).unwrap();

    assert!(!removed.last_name);
    assert!(fixture.images.layers(&image.id).unwrap()[0].is_dir());
    assert!(fixture.images.remove("two", |_| vec!["a sandbox".to_owned()]).is_err());
    assert!(fixture.images.remove("two", no_users).unwrap().last_name);
}

#[test]
fn removing_an_unknown_or_invalid_name_fails() {
    let fixture = Fixture::new();

    assert!(matches!(fixture.images.remove("nothing", no_users), Err(RemoveError::Missing { .. })));
    assert!(matches!(fixture.images.remove("host", no_users), Err(RemoveError::Name(_))));
    assert!(matches!(fixture.images.remove("../names", no_users), Err(RemoveError::Name(_))));
}

#[test]
fn a_damaged_record_is_reported_by_path_and_no_layer_is_deleted() {
    let fixture = Fixture::new();
    fixture.import(&Archive::new().file("x", "").done(), "app").unwrap();
    fixture.import(&Archive::new().file("y", "").done(), "other").unwrap();
    let record = fixture.path("images/names/app.json");
    fs::write(&record, "{").unwrap();

    let error = fixture.images.list().unwrap_err();

    assert!(error.to_string().contains("app.json"), "{error}");
    assert!(fixture.images.remove("other", no_users).is_err());
    assert_eq!(fixture.layer_count(), 2);
}

#[test]
fn concurrent_imports_and_removals_leave_every_named_image_complete() {
    let fixture = Fixture::new();
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
                    let image = fixture.images.import(path, name).unwrap();
                    for root in fixture.images.layers(&image.id).unwrap() {
                        assert!(root.is_dir());
                    }
                    fixture.images.remove(name, no_users).unwrap();
                }
            });
        }
    });

    assert_eq!(fixture.images.list().unwrap(), []);
    assert_eq!(fixture.layer_count(), 0);
    fixture.assert_nothing_unfinished();
}
