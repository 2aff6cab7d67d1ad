//! The configuration of an image: its platform, the digests of its layers and its run settings.

use serde::Deserialize;

use super::BundleError;
use crate::{Digest, Settings};

#[derive(Debug, Deserialize)]
pub(super) struct Config {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
    created: Option<String>,
    #[serde(default)]
    config: Option<RunConfig>,
    rootfs: RootFs,
}

#[derive(Debug, Deserialize)]
struct RootFs {
    diff_ids: Vec<Digest>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct RunConfig {
    env: Option<Vec<String>>,
    working_dir: Option<String>,
    user: Option<String>,
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
}

const LONGEST: usize = 64 << 10;
const MOST: usize = 1_000;

impl Config {
    /// The digests of the decompressed layers. Their count must match the manifest's.
    pub(super) fn contents(&self, listed: usize) -> Result<Vec<Digest>, BundleError> {
        let named = self.rootfs.diff_ids.len();
        if named != listed {
            return Err(BundleError::LayerCount { named, listed });
        }
        if named == 0 {
            return Err(BundleError::Empty);
        }
        Ok(self.rootfs.diff_ids.clone())
    }

    pub(super) fn refuse_other_platforms(&self) -> Result<(), BundleError> {
        // Very old images name no platform.
        let same = |said: &str, ours: &str| said.is_empty() || said == ours;
        if same(&self.os, OS) && same(&self.architecture, architecture()) {
            return Ok(());
        }
        let found = format!("{}/{}", self.os.escape_debug(), self.architecture.escape_debug());
        Err(BundleError::OtherPlatform { wanted: platform(), found })
    }

    pub(super) fn created(&self) -> Option<String> {
        let plain = |text: &String| text.len() <= 64 && text.chars().all(|c| c.is_ascii_graphic());
        self.created.clone().filter(plain)
    }

    pub(super) fn settings(&self) -> Result<Settings, BundleError> {
        let Some(config) = &self.config else { return Ok(Settings::default()) };
        let set = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let settings = Settings {
            env: config.env.clone().unwrap_or_default(),
            working_directory: set(&config.working_dir),
            user: set(&config.user),
            entrypoint: config.entrypoint.clone().unwrap_or_default(),
            command: config.cmd.clone().unwrap_or_default(),
        };
        check(&settings)?;
        Ok(settings)
    }
}

fn check(settings: &Settings) -> Result<(), BundleError> {
    let refuse = |field, why| Err(BundleError::Setting { field, why });
    for (field, list) in
        [("Env", &settings.env), ("Entrypoint", &settings.entrypoint), ("Cmd", &settings.command)]
    {
        if list.len() > MOST || list.iter().map(String::len).sum::<usize>() > LONGEST {
            return refuse(field, "it is too long");
        }
        if list.iter().any(|text| text.contains('\0')) {
            return refuse(field, "it contains a NUL");
        }
    }
    let named =
        |text: &String| text.split_once('=').is_some_and(|(name, _)| is_plain(name) && !name.is_empty());
    if !settings.env.iter().all(named) {
        return refuse("Env", "each entry must be `NAME=value`");
    }
    if let Some(directory) = &settings.working_directory {
        let climbs = directory.split('/').any(|part| part == "..");
        if !directory.starts_with('/') || climbs || !is_plain(directory) || directory.len() > 4095 {
            return refuse("WorkingDir", "it must be an absolute path without `..` and control characters");
        }
    }
    if settings.user.as_ref().is_some_and(|user| user.len() > 256 || !is_plain(user)) {
        return refuse("User", "it must be a short name or number without control characters");
    }
    Ok(())
}

fn is_plain(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

pub(super) const OS: &str = "linux";

/// This machine's architecture by its OCI name.
pub(super) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

pub(super) fn platform() -> String {
    format!("{OS}/{}", architecture())
}
