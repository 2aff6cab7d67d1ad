//! `pinfold stats` and `pinfold health`: what all sandboxes come to, and whether what they need works.

use std::process::ExitCode;
use std::time::Duration;

use pinfold_api::{HealthPart, HealthState};
use serde::Serialize;
use serde_json::Value;

use crate::Place;
use crate::documents::{self, word};
use crate::exit;
use crate::find::find;
use crate::plane::Plane;
use crate::quantities::milliseconds;
use crate::table::{harmless, lay_out};

#[derive(clap::Args)]
pub(crate) struct StatsOptions {
    /// What one sandbox uses instead: its id, a beginning of it that is no other's, or its name
    sandbox: Option<String>,
    /// Rates, latencies and what each type of agent came to instead
    #[arg(long, conflicts_with = "sandbox")]
    metrics: bool,
    /// How far back these go, from a minute to a week: seconds, or 90s, 5m, 1h, 7d
    #[arg(long, value_name = "TIME", value_parser = milliseconds, default_value = "1h", requires = "metrics")]
    window: u64,
}

pub(crate) async fn stats(place: &Place, options: &StatsOptions) -> anyhow::Result<ExitCode> {
    let plane = Plane::open(place).await?;
    match &options.sandbox {
        Some(given) => {
            let id = find(&plane, given).await?;
            show(place, &plane.resources(&id).await?)?;
        }
        None if options.metrics => {
            show(place, &plane.metrics(Duration::from_millis(options.window)).await?)?;
        }
        None => show(place, &plane.stats().await?)?,
    }
    plane.close().await?;
    Ok(ExitCode::SUCCESS)
}

/// Each figure by its name, as far as it is known.
fn show(place: &Place, figures: &impl Serialize) -> anyhow::Result<()> {
    if place.json {
        return documents::print(figures);
    }
    print!("{}", lay_out(&rows("", &serde_json::to_value(figures)?)));
    Ok(())
}

fn rows(name: &str, figure: &Value) -> Vec<Vec<String>> {
    let row = |told: String| vec![vec![name.trim().replace('_', " "), told]];
    match figure {
        Value::Null => Vec::new(),
        Value::Object(figures) => {
            figures.iter().flat_map(|(part, figure)| rows(&format!("{name} {part}"), figure)).collect()
        }
        Value::String(text) => row(harmless(text)),
        other => row(other.to_string()),
    }
}

pub(crate) async fn health(place: &Place) -> anyhow::Result<ExitCode> {
    let plane = Plane::open(place).await?;
    let health = plane.health().await?;
    plane.close().await?;
    if place.json {
        documents::print(&health)?;
    } else {
        let part = |name: &str, part: &HealthPart| {
            let message = part.message.as_deref().map(harmless).unwrap_or_default();
            vec![name.to_owned(), word(&part.status), message]
        };
        let mut told = vec![
            part("store", &health.store),
            part("provider", &health.provider),
            part("cleanup", &health.cleanup),
        ];
        if let Some(stats) = health.sandboxes {
            let sum = |name: &str, sum: u64| vec![name.to_owned(), sum.to_string()];
            told.extend([
                sum("active", stats.active),
                sum("provisioning", stats.provisioning),
                sum("terminating", stats.terminating),
                sum("quarantined", stats.quarantined),
            ]);
        }
        println!("{}{}", lay_out(&told), word(&health.status));
    }
    let is_well = health.status == HealthState::Ok;
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) })
}
