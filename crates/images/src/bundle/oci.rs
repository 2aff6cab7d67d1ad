//! An OCI layout: `index.json` leads to a manifest, and that to the configuration and the layers, all by digest.

use serde::Deserialize;

use super::config::{Config, OS, architecture, platform};
use super::{Bundle, BundleError, Confines, LayerFile, parse, verify};
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
/// An index of one image for many platforms, within the index of the layout, within one more.
const DEEPEST: usize = 3;
const INDEX_TYPES: [&str; 2] =
    ["application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json"];

pub(super) fn read(confines: &Confines) -> Result<Option<Bundle>, BundleError> {
    if confines.text_if_there(LAYOUT)?.is_none() {
        return Ok(None);
    }
    let Some(text) = confines.text_if_there(INDEX)? else { return Ok(None) };
    let mut index: Index = parse(INDEX, &text)?;
    for _ in 0..DEEPEST {
        let chosen = choose(&index)?;
        let (path, text) = blob(confines, &chosen)?;
        if INDEX_TYPES.contains(&chosen.media_type.as_str()) {
            index = parse(&path, &text)?;
        } else {
            return follow(confines, &parse(&path, &text)?).map(Some);
        }
    }
    Err(BundleError::Nested { most: DEEPEST })
}

/// The one for this machine. Who says nothing about machines has to be the only one.
fn choose(index: &Index) -> Result<Descriptor, BundleError> {
    let ours = |platform: &Platform| platform.os == OS && platform.architecture == architecture();
    let fitting: Vec<&Descriptor> =
        index.manifests.iter().filter(|manifest| manifest.platform.as_ref().is_none_or(ours)).collect();
    match fitting.as_slice() {
        [one] => Ok((*one).clone()),
        [] if index.manifests.is_empty() => Err(BundleError::Empty),
        [] => {
            let platforms = index.manifests.iter().filter_map(|manifest| manifest.platform.as_ref());
            let known = platforms.filter(|platform| platform.os != "unknown").take(20);
            let found: Vec<String> = known
                .map(|one| format!("{}/{}", one.os.escape_debug(), one.architecture.escape_debug()))
                .collect();
            Err(BundleError::OtherPlatform { wanted: platform(), found: found.join(", ") })
        }
        several => Err(BundleError::Several { count: several.len() }),
    }
}

fn follow(confines: &Confines, manifest: &Manifest) -> Result<Bundle, BundleError> {
    let (path, text) = blob(confines, &manifest.config)?;
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

/// A small blob, verified.
fn blob(confines: &Confines, descriptor: &Descriptor) -> Result<(String, Vec<u8>), BundleError> {
    let path = path_of(&descriptor.digest);
    let text = confines.text(&path)?;
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
