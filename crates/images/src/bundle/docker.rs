//! The format of `docker save`: a `manifest.json` that names the configuration and the layers by path.

use serde::Deserialize;

use super::config::Config;
use super::{Bundle, BundleDirectory, BundleError, LayerFile, parse, verify};
use crate::Digest;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SavedImage {
    config: String,
    layers: Vec<String>,
}

const MANIFEST: &str = "manifest.json";

pub(super) fn read(bundle_directory: &BundleDirectory) -> Result<Option<Bundle>, BundleError> {
    let Some(text) = bundle_directory.text_if_present(MANIFEST)? else { return Ok(None) };
    // A plain directory may have a file of that name too.
    let Ok(saved) = serde_json::from_slice::<Vec<SavedImage>>(&text) else { return Ok(None) };
    let saved = match saved.as_slice() {
        [] => return Err(BundleError::Empty),
        [saved] => saved,
        several => return Err(BundleError::Several { count: several.len() }),
    };
    let text = bundle_directory.text(&saved.config)?;
    let file = saved.config.rsplit('/').next().unwrap_or_default();
    if let Some(wanted) = Digest::from_hex(file.strip_suffix(".json").unwrap_or(file)) {
        verify(&saved.config, &text, &wanted)?;
    }
    let config: Config = parse(&saved.config, &text)?;
    config.refuse_other_platforms()?;
    let contents = config.contents(saved.layers.len())?;
    let layers = saved.layers.iter().zip(contents);
    Ok(Some(Bundle {
        id: Digest::of(&text),
        created: config.created(),
        settings: config.settings()?,
        layers: layers
            .map(|(path, content)| LayerFile { path: path.clone(), digest: None, size: None, content })
            .collect(),
    }))
}
