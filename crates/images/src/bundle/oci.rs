//! An OCI layout: `index.json` names a manifest, which names the configuration and the layers, all by digest.

use serde::Deserialize;

use super::config::{Config, OS, architecture, platform};
use super::{Bundle, BundleDirectory, BundleError, LayerFile, parse, verify};
use crate::Digest;

#[derive(Debug, Deserialize)]
struct Index {
    manifests: Vec<Descriptor>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    #[serde(default)]
    media_type: String,
    digest: Digest,
    size: u64,
    platform: Option<Platform>,
}

#[derive(Debug, Clone, Deserialize)]
struct Platform {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
}

#[derive(Debug, Deserialize)]
struct Manifest {
    config: Descriptor,
    layers: Vec<Descriptor>,
}

const LAYOUT: &str = "oci-layout";
const INDEX: &str = "index.json";
/// The layout's index, in it an index over platforms, and one more level.
const DEEPEST: usize = 3;
const INDEX_TYPES: [&str; 2] =
    ["application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json"];

pub(super) fn read(bundle_directory: &BundleDirectory) -> Result<Option<Bundle>, BundleError> {
    if bundle_directory.text_if_present(LAYOUT)?.is_none() {
        return Ok(None);
    }
    let Some(text) = bundle_directory.text_if_present(INDEX)? else { return Ok(None) };
    let mut index: Index = parse(INDEX, &text)?;
    for _ in 0..DEEPEST {
        let chosen = choose(&index)?;
        let (path, text) = blob(bundle_directory, &chosen)?;
        if INDEX_TYPES.contains(&chosen.media_type.as_str()) {
            index = parse(&path, &text)?;
        } else {
            return follow(bundle_directory, &parse(&path, &text)?).map(Some);
        }
    }
    Err(BundleError::Nested { most: DEEPEST })
}

/// Chooses the manifest for this machine. A manifest without a platform must be the only candidate.
fn choose(index: &Index) -> Result<Descriptor, BundleError> {
    let ours = |platform: &Platform| platform.os == OS && platform.architecture == architecture();
    let fitting: Vec<&Descriptor> =
        index.manifests.iter().filter(|manifest| manifest.platform.as_ref().is_none_or(ours)).collect();
    match fitting.as_slice() {
        [one] => Ok((*one).clone()),
        [] if index.manifests.is_empty() => Err(BundleError::Empty),
        [] => {
            let platforms = index.manifests.iter().filter_map(|manifest| manifest.platform.as_ref());
            let record = platforms.filter(|platform| platform.os != "unknown").take(20);
            let found: Vec<String> = record
                .map(|one| format!("{}/{}", one.os.escape_debug(), one.architecture.escape_debug()))
                .collect();
            Err(BundleError::OtherPlatform { wanted: platform(), found: found.join(", ") })
        }
        several => Err(BundleError::Several { count: several.len() }),
    }
}

fn follow(bundle_directory: &BundleDirectory, manifest: &Manifest) -> Result<Bundle, BundleError> {
    let (path, text) = blob(bundle_directory, &manifest.config)?;
    let config: Config = parse(&path, &text)?;
    config.refuse_other_platforms()?;
    let contents = config.contents(manifest.layers.len())?;
    let layer = |(layer, content): (&Descriptor, Digest)| LayerFile {
        path: path_of(&layer.digest),
        digest: Some(layer.digest.clone()),
        size: Some(layer.size),
        content,
    };
    Ok(Bundle {
        id: manifest.config.digest.clone(),
        created: config.created(),
        settings: config.settings()?,
        layers: manifest.layers.iter().zip(contents).map(layer).collect(),
    })
}

/// Reads a small blob and verifies its size and digest.
fn blob(
    bundle_directory: &BundleDirectory,
    descriptor: &Descriptor,
) -> Result<(String, Vec<u8>), BundleError> {
    let path = path_of(&descriptor.digest);
    let text = bundle_directory.text(&path)?;
    let found = text.len() as u64;
    if found != descriptor.size {
        return Err(BundleError::Size { path, wanted: descriptor.size, found });
    }
    verify(&path, &text, &descriptor.digest)?;
    Ok((path, text))
}

fn path_of(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}
