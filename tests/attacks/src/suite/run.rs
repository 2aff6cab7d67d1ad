//! Runs the table: a few entries at once, each first on a weakened sandbox and then on a real one.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use pinfold_lifecycle::Limits;

use crate::aftermath::{ids_of, leftovers};
use crate::entry::{Act, Entry, Proof, Verdict, in_words};
use crate::outside::Outside;
use crate::stage::{Stage, standard_limits};
use crate::{posture, report, table};

/// How many entries at once: the machine has other things to do.
const AT_ONCE: usize = 3;
/// No entry takes longer, or it has hung.
const LONGEST: Duration = Duration::from_secs(90);

/// What became of an entry.
pub(crate) struct Result {
    pub(crate) entry: &'static Entry,
    pub(crate) proved: String,
    pub(crate) outcome: String,
    pub(crate) faults: Vec<String>,
}

/// Says whether everything held.
pub(crate) async fn all(outside: &Arc<Outside>, wanted: &[String]) -> bool {
    let neighbour = match Stage::raise(outside, |_| Vec::new(), standard_limits()).await {
        Ok(neighbour) => neighbour,
        Err(why) => {
            println!("no sandbox could be started: {why}");
            return false;
        }
    };
    let neighbour = &neighbour;
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str()));
    let entries = table::all().filter(|entry| is_wanted(entry.name));
    let runs = entries.map(|entry| async move {
        match tokio::time::timeout(LONGEST, one(entry, outside, neighbour)).await {
            Ok(result) => result,
            Err(_) => failed(entry, "it did not come to an end"),
        }
    });
    let mut results: Vec<Result> =
        futures_util::stream::iter(runs).buffer_unordered(AT_ONCE).inspect(report::line).collect().await;
    results.sort_by_key(|result| (result.entry.group, result.entry.name));
    let postures = if is_wanted("posture") { posture::all(outside).await } else { Vec::new() };
    let over = neighbour.end().await;
    report::table(&results, &postures, over.err())
}

fn failed(entry: &'static Entry, why: &str) -> Result {
    Result { entry, proved: String::new(), outcome: String::new(), faults: vec![why.to_owned()] }
}

async fn one(entry: &'static Entry, outside: &Arc<Outside>, neighbour: &Stage) -> Result {
    let mut faults = Vec::new();
    let proved = match prove_at_last(entry, outside).await {
        Ok(proved) => proved,
        Err(why) => {
            faults.push(format!("not proved: {why}"));
            String::new()
        }
    };
    let outcome = match try_on_a_real_one(entry, outside, neighbour).await {
        Ok(Verdict::Held(why)) => why,
        Ok(Verdict::Through(what)) => {
            faults.push(format!("GOT THROUGH: {what}"));
            what
        }
        Err(why) => {
            faults.push(format!("not tried: {why}"));
            String::new()
        }
    };
    Result { entry, proved, outcome, faults }
}

/// Some attempts are races, which nobody wins every time.
const RACES: usize = 5;

async fn prove_at_last(entry: &'static Entry, outside: &Arc<Outside>) -> std::result::Result<String, String> {
    let mut proved = prove(entry, outside).await;
    for _ in 1..RACES {
        if proved.is_ok() {
            break;
        }
        proved = prove(entry, outside).await;
    }
    proved
}

/// How it was proved that the attempt is real.
async fn prove(entry: &'static Entry, outside: &Arc<Outside>) -> std::result::Result<String, String> {
    let none = |_: &Stage| Vec::new();
    let (stage, act, how) = match entry.proof {
        Proof::Nowhere(why) => return Ok(format!("no harmless proof: {why}")),
        Proof::Naive(trap) => {
            return match trap()? {
                Verdict::Through(what) => Ok(format!("a simple-minded way: {what}")),
                Verdict::Held(why) => Err(format!("even a simple-minded way holds: {why}")),
            };
        }
        Proof::Without(weaknesses) => {
            let stage = Stage::raise(outside, weaknesses, limits(entry)).await?;
            let how = in_words(&weaknesses(&stage));
            (stage, entry.act, how)
        }
        Proof::WithoutAt(weaknesses, arguments) => {
            let stage = Stage::raise(outside, weaknesses, limits(entry)).await?;
            let how = format!("{}: {}", in_words(&weaknesses(&stage)), arguments[1..].join(" "));
            (stage, Act::Hostile(arguments), how)
        }
        Proof::OnItself(arguments) => {
            let stage = Stage::raise(outside, none, limits(entry)).await?;
            (stage, Act::Hostile(arguments), "on something of its own".to_owned())
        }
        Proof::Unlimited => {
            let stage = Stage::raise(outside, none, Limits::default()).await?;
            (stage, entry.act, "without the limit".to_owned())
        }
    };
    let verdict = judged(&stage, act).await;
    let _ = stage.end().await;
    match verdict? {
        Verdict::Through(_) => Ok(how),
        Verdict::Held(why) => Err(format!("with {how} it still came to: {why}")),
    }
}

fn limits(entry: &Entry) -> Limits {
    Limits { cpu_millis: entry.cpu_millis, ..standard_limits() }
}

/// What it came to, and whether the keeper is well: one that is not is what was wanted.
async fn judged(stage: &Stage, act: Act) -> std::result::Result<Verdict, String> {
    let verdict = match act {
        Act::Hostile(arguments) => stage.attempt(arguments).await?,
        Act::Scene(scene) => scene(stage).await?,
    };
    let harm = if !stage.canary_is_well() {
        Some("the canary outside was changed")
    } else if matches!(act, Act::Hostile(_)) && !stage.answers().await {
        Some("the keeper does not answer any more")
    } else {
        None
    };
    Ok(match (verdict, harm) {
        (Verdict::Held(_), Some(harm)) => Verdict::Through(harm.to_owned()),
        (verdict, _) => verdict,
    })
}

async fn try_on_a_real_one(
    entry: &'static Entry,
    outside: &Arc<Outside>,
    neighbour: &Stage,
) -> std::result::Result<Verdict, String> {
    let stage = Stage::raise(outside, |_| Vec::new(), limits(entry)).await?;
    let ids = ids_of(&stage);
    let verdict = judged(&stage, entry.act).await;
    let ended = stage.end().await;
    let verdict = match verdict? {
        Verdict::Held(why) => why,
        through @ Verdict::Through(_) => return Ok(through),
    };
    if let Err(why) = ended {
        return Ok(Verdict::Through(format!("it could not be stopped: {why}")));
    }
    let left = leftovers(&stage, ids);
    if !left.is_empty() {
        return Ok(Verdict::Through(format!("left behind: {left:?}")));
    }
    if !neighbour.answers().await || !neighbour.still_works().await {
        return Ok(Verdict::Through("its neighbour was harmed".into()));
    }
    Ok(Verdict::Held(verdict))
}
