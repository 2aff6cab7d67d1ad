//! `pinfold config`: prints the effective settings with their origin, or a template of the file.

use std::path::PathBuf;
use std::process::ExitCode;

use confique::toml::FormatOptions;
use serde::Serialize;
use serde_json::Value;

use crate::data_directory::data_directory;
use crate::settings::{FILE, Origin, Settings, ShownSetting, load};
use crate::table::{escape_control, format_table};
use crate::{GlobalOptions, json_output};

#[derive(clap::Subcommand)]
pub(crate) enum Configuration {
    /// Print every effective value and where it comes from
    Show {
        /// Configuration file, instead of `pinfold.toml` in the data directory
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Print a configuration file with every setting, for `pinfold.toml` in the data directory
    Template,
}

#[derive(Serialize)]
struct ConfigReport<'a> {
    /// None: there is no file.
    file: Option<&'a PathBuf>,
    settings: &'a [ShownSetting],
}

pub(crate) fn run(global: &GlobalOptions, command: &Configuration) -> anyhow::Result<ExitCode> {
    match command {
        Configuration::Show { config } => show(global, config.as_ref())?,
        Configuration::Template => anstream::print!("{}", template()),
    }
    Ok(ExitCode::SUCCESS)
}

fn show(global: &GlobalOptions, config: Option<&PathBuf>) -> anyhow::Result<()> {
    let data = data_directory(global.data_dir.as_ref())?;
    let loaded = load(&data, config.map(PathBuf::as_path))?;
    let settings = loaded.provenance.shown();
    if global.json {
        return json_output::print(&ConfigReport { file: loaded.file.as_ref(), settings: &settings });
    }
    match &loaded.file {
        Some(file) => anstream::println!("# file: {}", escape_control(&file.display().to_string())),
        None => anstream::println!("# no file: {}", escape_control(&data.join(FILE).display().to_string())),
    }
    let rows: Vec<_> = settings.iter().map(row).collect();
    anstream::print!("{}", format_table(&rows));
    Ok(())
}

fn row(setting: &ShownSetting) -> Vec<String> {
    let value = match &setting.value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let from = match (setting.from, setting.variable) {
        (Origin::Default, _) => "default".to_owned(),
        (Origin::Machine, _) => "machine size".to_owned(),
        (Origin::File, _) => "file".to_owned(),
        (Origin::Environment, variable) => format!("environment: {}", variable.unwrap_or_default()),
    };
    vec![setting.key.clone(), escape_control(&value), from]
}

pub(crate) fn template() -> String {
    confique::toml::template::<Settings>(FormatOptions::default())
}
