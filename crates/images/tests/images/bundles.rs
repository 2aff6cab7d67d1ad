//! Hand-made OCI layouts and `docker save` archives in the old and the current format.

use std::fs;
use std::path::Path;

use pinfold_images::{Image, ImportError};
use serde_json::{Value, json};

use super::archive::{Archive, gzip, hex, zstd};
use super::fixture::{Fixture, chain};

/// Files by path, to be written as a directory or as an archive.
#[derive(Default, Clone)]
pub(crate) struct Files(Vec<(String, Vec<u8>)>);

impl Files {
    pub(crate) fn add(&mut self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.0.push((path.to_owned(), bytes.into()));
    }

    /// Adds a blob and returns its descriptor.
    fn blob(&mut self, kind: &str, bytes: &[u8]) -> Value {
        self.add(&format!("blobs/sha256/{}", hex(bytes)), bytes);
        json!({ "mediaType": kind, "digest": format!("sha256:{}", hex(bytes)), "size": bytes.len() })
    }

    pub(crate) fn tar(&self) -> Vec<u8> {
        let entry = |archive: Archive, (path, bytes): &(String, Vec<u8>)| {
            archive.entry(&super::archive::Entry {
                path: path.as_bytes(),
                contents: bytes,
                ..Default::default()
            })
        };
        self.0.iter().fold(Archive::new(), entry).done()
    }

    fn write(&self, directory: &Path) {
        for (path, bytes) in &self.0 {
            let path = directory.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
    }

    fn replace(&mut self, path: &str, bytes: &[u8]) {
        self.0.iter_mut().find(|(name, _)| name == path).unwrap().1 = bytes.to_vec();
    }
}

const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

fn architecture() -> &'static str {
    if cfg!(target_arch = "x86_64") { "amd64" } else { "arm64" }
}

pub(crate) fn config(layers: &[Vec<u8>]) -> Value {
    let diff_ids: Vec<String> = layers.iter().map(|layer| format!("sha256:{}", hex(layer))).collect();
    json!({
        "architecture": architecture(), "os": "linux", "created": "2026-01-02T03:04:05Z",
        "config": { "Env": ["PATH=/bin", "A=b=c"], "WorkingDir": "/srv", "User": "app:app", "Cmd": ["sh"] },
        "rootfs": { "type": "layers", "diff_ids": diff_ids },
    })
}

fn two_layers() -> [Vec<u8>; 2] {
    [
        Archive::new().file("bottom", "bottom").file("both", "old").done(),
        Archive::new().file("both", "new").file(".wh.bottom", "").done(),
    ]
}

/// Adds an image with these layers and returns its manifest's descriptor.
fn manifest(files: &mut Files, config: &Value, layers: &[Vec<u8>], compress: fn(&[u8]) -> Vec<u8>) -> Value {
    let config = files.blob(CONFIG, config.to_string().as_bytes());
    let layers: Vec<Value> = layers.iter().map(|layer| files.blob(LAYER, &compress(layer))).collect();
    let text = json!({ "schemaVersion": 2, "config": config, "layers": layers }).to_string();
    files.blob(MANIFEST, text.as_bytes())
}

fn layout(files: &mut Files, manifests: &[Value]) {
    files.add("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#);
    files.add("index.json", json!({ "schemaVersion": 2, "manifests": manifests }).to_string());
}

pub(crate) fn oci(layers: &[Vec<u8>], compress: fn(&[u8]) -> Vec<u8>) -> Files {
    let mut files = Files::default();
    let manifest = manifest(&mut files, &config(layers), layers, compress);
    layout(&mut files, &[manifest]);
    files
}

fn docker(layers: &[Vec<u8>]) -> Files {
    let mut files = Files::default();
    let config = config(layers).to_string();
    let config_path = format!("{}.json", hex(config.as_bytes()));
    files.add(&config_path, config);
    let paths: Vec<String> = (0..layers.len()).map(|number| format!("{number}/layer.tar")).collect();
    for (path, layer) in paths.iter().zip(layers) {
        files.add(path, layer.clone());
    }
    let saved = json!([{ "Config": config_path, "RepoTags": ["app:latest"], "Layers": paths }]);
    files.add("manifest.json", saved.to_string());
    files
}

fn assert_is_two_layers(fixture: &Fixture, image: &Image) {
    let roots = fixture.images.layers(&image.id).unwrap();
    assert_eq!(roots.len(), 2);
    assert_eq!(fs::read_to_string(roots[0].join("both")).unwrap(), "new", "the topmost is first");
    assert_eq!(fs::read_to_string(roots[1].join("both")).unwrap(), "old");
    assert_eq!(image.settings.env, ["PATH=/bin", "A=b=c"]);
    assert_eq!(image.settings.working_directory.as_deref(), Some("/srv"));
    assert_eq!(image.settings.user.as_deref(), Some("app:app"));
    assert_eq!(image.settings.command, ["sh"]);
    assert_eq!(image.created.as_deref(), Some("2026-01-02T03:04:05Z"));
    assert_eq!(image.bytes, 12);
    fixture.assert_nothing_unfinished();
}

fn plain(bytes: &[u8]) -> Vec<u8> {
    bytes.to_vec()
}

fn refused(fixture: &Fixture, files: &Files) -> String {
    let error = fixture.import(&files.tar(), "refused").unwrap_err();
    assert_eq!(fixture.images.list().unwrap(), []);
    fixture.assert_nothing_unfinished();
    chain(&error)
}

#[test]
fn an_oci_layout_is_imported_from_a_directory_and_from_an_archive() {
    for compress in [plain, gzip, zstd] {
        let fixture = Fixture::new();
        let files = oci(&two_layers(), compress);
        let directory = tempfile::tempdir().unwrap();
        files.write(directory.path());

        let from_directory = fixture.images.import(directory.path(), "directory").unwrap();
        let from_archive = fixture.import(&gzip(&files.tar()), "archive").unwrap();

        assert_is_two_layers(&fixture, &from_directory);
        assert_eq!(from_archive.id, from_directory.id);
        assert_eq!(fixture.layer_count(), 2, "layers are kept once");
    }
}

#[test]
fn an_archive_in_the_old_docker_save_format_is_imported() {
    let fixture = Fixture::new();

    let image = fixture.import(&docker(&two_layers()).tar(), "app").unwrap();

    assert_is_two_layers(&fixture, &image);
    assert_eq!(image.id.hex(), hex(config(&two_layers()).to_string().as_bytes()));
}

#[test]
fn docker_layers_saved_as_symlinks_to_each_other_are_resolved() {
    let fixture = Fixture::new();
    let same = two_layers()[0].clone();
    let config = config(&[same.clone(), same.clone()]).to_string();
    let saved = json!([{ "Config": "config.json", "Layers": ["a/layer.tar", "b/layer.tar"] }]);
    let layer = String::from_utf8(same).unwrap();

    let archive = Archive::new()
        .file("config.json", &config)
        .file("manifest.json", &saved.to_string())
        .file("a/layer.tar", &layer)
        .symlink("b/layer.tar", "../a/layer.tar");
    let image = fixture.import(&archive.done(), "app").unwrap();

    assert_eq!(image.layers[0], image.layers[1]);
    assert_eq!(fixture.layer_count(), 1);
}

#[test]
fn an_archive_in_the_current_docker_save_format_is_imported() {
    let fixture = Fixture::new();
    let mut files = oci(&two_layers(), plain);
    let path = |bytes: &[u8]| format!("blobs/sha256/{}", hex(bytes));
    let layers = two_layers().map(|layer| path(&layer));
    let config = path(config(&two_layers()).to_string().as_bytes());
    files.add("manifest.json", json!([{ "Config": config, "Layers": layers }]).to_string());

    let image = fixture.import(&files.tar(), "app").unwrap();
    let as_saved_long_ago = fixture.import(&docker(&two_layers()).tar(), "old").unwrap();

    assert_is_two_layers(&fixture, &image);
    assert_eq!(as_saved_long_ago.layers, image.layers);
    assert_eq!(fixture.layer_count(), 2);
}

#[test]
fn the_manifest_for_this_platform_is_chosen() {
    let fixture = Fixture::new();
    let mut files = Files::default();
    let mut others = config(&two_layers());
    others["architecture"] = json!("s390x");
    let other_layers = [Archive::new().file("other", "").done()];
    let mut other = manifest(&mut files, &others, &other_layers, gzip);
    let mut ours = manifest(&mut files, &config(&two_layers()), &two_layers(), gzip);
    let mut attestation = files.blob(MANIFEST, b"{}");
    other["platform"] = json!({ "architecture": "s390x", "os": "linux" });
    ours["platform"] = json!({ "architecture": architecture(), "os": "linux" });
    attestation["platform"] = json!({ "architecture": "unknown", "os": "unknown" });
    let index = json!({ "schemaVersion": 2, "manifests": [other, ours, attestation] }).to_string();
    let index = files.blob(INDEX, index.as_bytes());
    layout(&mut files, &[index]);

    let image = fixture.import(&files.tar(), "app").unwrap();

    assert_is_two_layers(&fixture, &image);
}

#[test]
fn an_image_for_another_platform_is_refused() {
    let fixture = Fixture::new();
    let mut files = Files::default();
    let mut others = config(&two_layers());
    others["architecture"] = json!("s390x");
    let manifest = manifest(&mut files, &others, &two_layers(), gzip);
    let mut marked = manifest.clone();
    marked["platform"] = json!({ "architecture": "s390x", "os": "linux" });
    let mut platform_in_index = files.clone();
    layout(&mut files, &[manifest]);
    layout(&mut platform_in_index, &[marked]);

    for files in [files, platform_in_index] {
        let error = refused(&fixture, &files);
        assert!(error.contains(&format!("no image for linux/{}", architecture())), "{error}");
        assert!(error.contains("only for linux/s390x"), "{error}");
    }
}

#[test]
fn a_layer_with_the_wrong_size_or_digest_is_refused() {
    let [bottom, top] = two_layers();
    let files = oci(&[bottom.clone(), top], plain);
    let path = format!("blobs/sha256/{}", hex(&bottom));
    let mut longer = bottom.clone();
    longer.extend([0; 512]);
    let mut changed = bottom.clone();
    changed[512] = b'B';

    for (bytes, expected) in [(longer, "bytes instead of"), (changed, "has the digest")] {
        let fixture = Fixture::new();
        let mut files = files.clone();
        files.replace(&path, &bytes);
        let error = refused(&fixture, &files);
        assert!(error.contains(expected) && error.contains(&path), "{error}");
    }
}

#[test]
fn a_layer_with_the_right_content_but_another_compressed_digest_is_refused() {
    let fixture = Fixture::new();
    let bottom = gzip(&two_layers()[0]);
    let mut files = oci(&two_layers(), gzip);
    let mut other_time = bottom.clone();
    // The timestamp in the gzip header, which is not part of the content.
    other_time[4] ^= 1;
    let path = format!("blobs/sha256/{}", hex(&bottom));
    files.replace(&path, &other_time);

    let error = refused(&fixture, &files);

    assert!(error.contains(&format!("`{path}` has the digest")), "{error}");
}

#[test]
fn a_configuration_with_the_wrong_digest_is_refused() {
    let fixture = Fixture::new();
    let original = config(&two_layers()).to_string();
    let path = format!("blobs/sha256/{}", hex(original.as_bytes()));
    let mut files = oci(&two_layers(), gzip);
    files.replace(&path, original.replace("/srv", "/etc").as_bytes());

    let error = refused(&fixture, &files);

    assert!(error.contains("has the digest"), "{error}");
}

#[test]
fn a_layer_whose_content_does_not_match_the_configuration_is_refused() {
    let [bottom, top] = two_layers();
    let mut files = Files::default();
    let swapped = config(&[top.clone(), bottom.clone()]);
    let manifest = manifest(&mut files, &swapped, &[bottom, top], gzip);
    layout(&mut files, &[manifest]);

    let fixture = Fixture::new();
    let error = fixture.import(&files.tar(), "app").unwrap_err();

    assert!(matches!(error, ImportError::Content { .. }), "{error}");
    assert_eq!(fixture.layer_count(), 0);
}

#[test]
fn several_images_no_image_and_missing_blobs_are_refused() {
    let fixture = Fixture::new();
    let mut several = Files::default();
    let one = manifest(&mut several, &config(&two_layers()), &two_layers(), gzip);
    let other_layers = [Archive::new().file("other", "").done()];
    let other = manifest(&mut several, &config(&other_layers), &other_layers, gzip);
    layout(&mut several, &[one.clone(), other]);
    let mut none = Files::default();
    layout(&mut none, &[]);
    let mut missing = Files::default();
    layout(&mut missing, &[one]);

    assert!(refused(&fixture, &several).contains("holds 2 images"));
    assert!(refused(&fixture, &none).contains("no image"));
    assert!(refused(&fixture, &missing).contains("is missing"));
}

#[test]
fn a_layer_path_that_leaves_the_directory_is_refused() {
    let fixture = Fixture::new();
    let secret = two_layers()[0].clone();
    fs::write(fixture.path("images").join("secret.tar"), &secret).unwrap();
    let config = config(&[secret]).to_string();
    let climbing = "../../../secret.tar";
    let absolute = fixture.path("images").join("secret.tar").to_str().unwrap().to_owned();
    for path in [climbing, &absolute, "link"] {
        let saved = json!([{ "Config": "config.json", "Layers": [path] }]).to_string();
        let archive = Archive::new().file("config.json", &config).file("manifest.json", &saved);
        let error = fixture.import(&archive.symlink("link", climbing).done(), "app").unwrap_err();

        assert!(matches!(error, ImportError::Bundle(_)), "{path}: {error}");
    }
}

#[test]
fn invalid_settings_are_refused_and_the_error_names_the_field() {
    let fixture = Fixture::new();
    for (field, value) in [
        ("Env", json!(["NOVALUE"])),
        ("Env", json!(["A=b\0c"])),
        ("WorkingDir", json!("relative")),
        ("WorkingDir", json!("/a/../../b")),
        ("User", json!("root\u{1b}[2J")),
        ("Cmd", json!(vec!["x"; 2000])),
    ] {
        let mut files = Files::default();
        let mut wanted = config(&two_layers());
        wanted["config"][field] = value;
        let manifest = manifest(&mut files, &wanted, &two_layers(), gzip);
        layout(&mut files, &[manifest]);

        let error = refused(&fixture, &files);

        assert!(error.contains(&format!("the {field} of its configuration")), "{error}");
    }
}

#[test]
fn a_root_filesystem_with_an_unrelated_manifest_json_is_imported_as_a_root() {
    let fixture = Fixture::new();

    let root = fixture.root_of(&Archive::new().file("manifest.json", "{\"name\": \"extension\"}").done());

    assert!(root.join("manifest.json").exists());
}
