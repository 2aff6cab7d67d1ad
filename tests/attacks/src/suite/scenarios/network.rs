//! From one sandbox to another.

use std::time::Duration;

use super::until;
use crate::entry::Verdict;
use crate::fixture::{Fixture, standard_limits};

/// A second sandbox with the same disabled guards listens; this one connects.
pub(crate) async fn visit_a_neighbour(fixture: &Fixture, attempt: &str) -> Result<Verdict, String> {
    let disabled_guards = fixture.disabled_guards.clone();
    let other = Fixture::start_with_hostile(&fixture.targets, |_| disabled_guards, standard_limits()).await?;
    let visited = async {
        let (address, name) = (free_address()?, format!("pinfold-{}", other.name()));
        let listener = other.hostile(&["listen-for-a-neighbour", &address, &name]);
        let listening = other.begin(&listener, Some(8_000)).await.map_err(|error| error.to_string())?;
        let is_listening = async || other.output_of(listening).contains("listening");
        if !until(Duration::from_secs(4), is_listening).await {
            return Err("the neighbour does not listen".to_owned());
        }
        fixture.attempt(&[attempt, &address, &name]).await
    };
    let verdict = visited.await;
    other.end().await?;
    verdict
}

/// An address on the loopback interface that is unused on the host.
fn free_address() -> Result<String, String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    Ok(listener.local_addr().map_err(|error| error.to_string())?.to_string())
}
