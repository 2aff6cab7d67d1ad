//! `pinfold rm`: forgets the records of sandboxes that are proven gone.

use std::process::ExitCode;

use serde_json::json;

use crate::Place;
use crate::documents;
use crate::failure::Failure;
use crate::find::find;
use crate::plane::Plane;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The sandboxes: ids, beginnings of ids that are no other's, or names
    #[arg(required = true, value_name = "SANDBOX")]
    sandboxes: Vec<String>,
}

pub(crate) async fn run(place: &Place, options: &Options) -> anyhow::Result<ExitCode> {
    let plane = Plane::open(place).await?;
    let mut forgotten = Vec::new();
    for given in &options.sandboxes {
        let id = find(&plane, given).await?;
        // The engine would end it first; nobody is to lose one by a word that sounds as if it were gone.
        if plane.sandbox(&id).await?.receipt.is_none() {
            return Err(Failure::StillThere { id }.into());
        }
        plane.forget(&id).await?;
        forgotten.push(id);
    }
    plane.close().await?;
    if place.json {
        documents::print(&json!({ "forgotten": forgotten }))?;
    } else {
        forgotten.iter().for_each(|id| anstream::println!("{id} is forgotten"));
    }
    Ok(ExitCode::SUCCESS)
}
