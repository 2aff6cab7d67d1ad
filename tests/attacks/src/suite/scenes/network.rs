//! From one sandbox to another.

use std::time::Duration;

use super::until;
use crate::entry::Verdict;
use crate::stage::{Stage, standard_limits};

/// A second sandbox, as weak as this one, listens; this one visits.
pub(crate) async fn visit_a_neighbour(stage: &Stage, attempt: &str) -> Result<Verdict, String> {
    let weaknesses = stage.weaknesses.clone();
    let other = Stage::raise(&stage.outside, |_| weaknesses, standard_limits()).await?;
    let visited = async {
        let (address, name) = (free_address()?, format!("pinfold-{}", other.name()));
        let listener = other.hostile(&["listen-for-a-neighbour", &address, &name]);
        let listening = other.begin(&listener, Some(8_000)).await.map_err(|error| error.to_string())?;
        let is_listening = async || other.output_of(listening).contains("listening");
        if !until(Duration::from_secs(4), is_listening).await {
            return Err("the neighbour does not listen".to_owned());
        }
        stage.attempt(&[attempt, &address, &name]).await
    };
    let verdict = visited.await;
    other.end().await?;
    verdict
}

/// On the loopback of whoever uses it. Nobody listens there on the host.
fn free_address() -> Result<String, String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    Ok(listener.local_addr().map_err(|error| error.to_string())?.to_string())
}
