//! `pinfold config`: what holds here and where it comes from, and a file to begin with.

use std::path::PathBuf;
use std::process::ExitCode;

use confique::toml::FormatOptions;
use serde::Serialize;
use serde_json::Value;

use crate::host::data_directory;
use crate::settings::{FILE, Origin, Settings, Shown, load};
use crate::table::{harmless, lay_out};
use crate::{Place, documents};

#[derive(clap::Subcommand)]
pub(crate) enum Configuration {
    /// Print every value that holds, and where it comes from
    Show {
        /// The file, instead of `pinfold.toml` in the data directory
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Print a file with everything that can be set, for `pinfold.toml` in the data directory
    Template,
}

#[derive(Serialize)]
struct Document<'a> {
    /// None: there is no file.
    file: Option<&'a PathBuf>,
    settings: &'a [Shown],
}

pub(crate) fn run(place: &Place, asked: &Configuration) -> anyhow::Result<ExitCode> {
    match asked {
        Configuration::Show { config } => show(place, config.as_ref())?,
        Configuration::Template => anstream::print!("{}", template()),
    }
    Ok(ExitCode::SUCCESS)
}

fn show(place: &Place, config: Option<&PathBuf>) -> anyhow::Result<()> {
    let data = data_directory(place.data_dir.as_ref())?;
    let loaded = load(&data, config.map(PathBuf::as_path))?;
    let settings = loaded.provenance.shown();
    if place.json {
        return documents::print(&Document { file: loaded.file.as_ref(), settings: &settings });
    }
    match &loaded.file {
        Some(file) => anstream::println!("# with {}", harmless(&file.display().to_string())),
        None => anstream::println!("# there is no {}", harmless(&data.join(FILE).display().to_string())),
    }
    let rows: Vec<_> = settings.iter().map(row).collect();
    anstream::print!("{}", lay_out(&rows));
    Ok(())
}

fn row(shown: &Shown) -> Vec<String> {
    let value = match &shown.value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let from = match (shown.from, shown.variable) {
        (Origin::Default, _) => "default".to_owned(),
        (Origin::Machine, _) => "the size of this machine".to_owned(),
        (Origin::File, _) => "file".to_owned(),
        (Origin::Environment, variable) => format!("environment: {}", variable.unwrap_or_default()),
    };
    vec![shown.key.clone(), harmless(&value), from]
}

pub(crate) fn template() -> String {
    confique::toml::template::<Settings>(FormatOptions::default())
}
