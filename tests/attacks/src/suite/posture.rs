//! Every process inside, compared with exactly what it should be: one descriptor, mount, right or name more fails.

mod expected;
mod seen;

use std::sync::Arc;

use pinfold_keeper::weakness::Weakness;

use crate::outside::Outside;
use crate::stage::{Stage, standard_limits};
use expected::Check;

/// One line for each kind of thing, with what is not as it should be.
pub(crate) async fn all(outside: &Arc<Outside>) -> Vec<(String, Vec<String>)> {
    let mut lines = Vec::new();
    match look(outside, Vec::new()).await {
        Ok(found) => lines.extend(found),
        Err(why) => lines.push(("of a real sandbox".to_owned(), vec![why])),
    }
    lines.push(("notices what is wrong".to_owned(), notices(outside).await));
    lines
}

async fn look(
    outside: &Arc<Outside>,
    weaknesses: Vec<Weakness>,
) -> Result<Vec<(String, Vec<String>)>, String> {
    let stage = Stage::raise(outside, |_| weaknesses, standard_limits()).await?;
    let seen = seen::look(&stage).await;
    let found = seen.map(|seen| {
        let line = |(name, check): &(&str, Check)| ((*name).to_owned(), check(&stage, &seen));
        expected::CHECKS.iter().map(line).collect()
    });
    stage.end().await?;
    found
}

/// The proof: each of these is seen in a sandbox that is wrong in it.
async fn notices(outside: &Arc<Outside>) -> Vec<String> {
    let canary = match Stage::prepare(outside) {
        Ok(stage) => stage,
        Err(why) => return vec![why],
    };
    let wrong = [
        (Weakness::LeakedDirectory(canary.canary()), "descriptors of an execution"),
        (Weakness::LeakedVariable("x".to_owned()), "environment"),
        (Weakness::Capability(1 << 21), "capabilities"),
        (Weakness::NewPrivilegesGranted, "no new privileges, filters"),
        (Weakness::LimitsOfTheHost, "limits"),
        (Weakness::KeeperReadable, "what of the keeper is in sight"),
        (Weakness::NetworkOfTheHost, "namespaces"),
        (Weakness::HiddenPathsShown, "mounts"),
        (Weakness::SetuidFilesHonoured, "mounts"),
        (Weakness::Shared(canary.canary()), "mounts"),
    ];
    let mut faults = Vec::new();
    for (weakness, name) in wrong {
        let shown = format!("{weakness:?}");
        match look(outside, vec![weakness]).await {
            Ok(lines) if lines.iter().any(|(line, found)| line == name && !found.is_empty()) => {}
            Ok(_) => faults.push(format!("`{name}` does not notice {shown}")),
            Err(why) => faults.push(format!("{shown}: {why}")),
        }
    }
    faults
}
