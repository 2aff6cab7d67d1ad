//! What `docker save` writes: a `manifest.json` that names the configuration and the layers by their paths.

use serde::Deserialize;

use super::config::Config;
use super::{Bundle, BundleError, Confines, LayerFile, parse, verify};
use crate::Digest;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    layers: Vec<String>,
}

const MANIFEST: &str = "manifest.json";

pub(super) fn read(confines: &Confines) -> Result<Option<Bundle>, BundleError> {
    let Some(text) = confines.text_if_there(MANIFEST)? else { return Ok(None) };
    // Any directory may have a file of that name.
    let Ok(saved) = serde_json::from_slice::<Vec<Saved>>(&text) else { return Ok(None) };
    let saved = match saved.as_slice() {
        [] => return Err(BundleError::Empty),
        [saved] => saved,
        several => return Err(BundleError::Several { count: several.len() }),
    };
    let text = confines.text(&saved.config)?;
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
