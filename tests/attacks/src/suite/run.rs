//! Runs the table: a few entries at once, each first with its guard disabled and then on a real sandbox.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use pinfold_lifecycle::Limits;

use crate::entry::{Act, Entry, Proof, Verdict, describe_guards};
use crate::fixture::{Fixture, PROGRAMS, standard_limits};
use crate::host_targets::HostTargets;
use crate::leftovers::{ids_of, leftovers};
use crate::{posture, report, table, unprivileged_user};

/// Entries run in parallel.
const AT_ONCE: usize = 3;
/// A slower entry counts as hung.
const LONGEST: Duration = Duration::from_secs(90);

/// The result of an entry.
pub(crate) struct Result {
    pub(crate) entry: &'static Entry,
    pub(crate) proved: String,
    pub(crate) outcome: String,
    pub(crate) faults: Vec<String>,
}

/// Whether everything passed.
pub(crate) async fn all(targets: &Arc<HostTargets>, wanted: &[String]) -> bool {
    let neighbour = match Fixture::start_with_hostile(targets, |_| Vec::new(), standard_limits()).await {
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
        match tokio::time::timeout(LONGEST, one(entry, targets, neighbour)).await {
            Ok(result) => result,
            Err(_) => failed(entry, "it did not come to an end"),
        }
    });
    let mut results: Vec<Result> =
        futures_util::stream::iter(runs).buffer_unordered(AT_ONCE).inspect(report::line).collect().await;
    results.sort_by_key(|result| (result.entry.group, result.entry.name));
    let mut postures = Vec::new();
    if !unprivileged_user::is_active() {
        if is_wanted("posture") {
            postures.extend(posture::all(targets).await);
        }
        if is_wanted("unprivileged") {
            postures.push(("of an ordinary user's sandboxes".to_owned(), unprivileged_user::run(&PROGRAMS)));
        }
    }
    let over = neighbour.end().await;
    report::table(&results, &postures, over.err())
}

fn failed(entry: &'static Entry, why: &str) -> Result {
    Result { entry, proved: String::new(), outcome: String::new(), faults: vec![why.to_owned()] }
}

async fn one(entry: &'static Entry, targets: &Arc<HostTargets>, neighbour: &Fixture) -> Result {
    let mut faults = Vec::new();
    let proved = match prove_at_last(entry, targets).await {
        Ok(proved) => proved,
        Err(why) => {
            faults.push(format!("not proved: {why}"));
            String::new()
        }
    };
    let outcome = match try_on_a_real_one(entry, targets, neighbour).await {
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

/// Some attempts are races that succeed only sometimes.
const RACES: usize = 5;

async fn prove_at_last(
    entry: &'static Entry,
    targets: &Arc<HostTargets>,
) -> std::result::Result<String, String> {
    let mut proved = prove(entry, targets).await;
    for _ in 1..RACES {
        if proved.is_ok() {
            break;
        }
        proved = prove(entry, targets).await;
    }
    proved
}

/// Proves that the attempt is real.
async fn prove(entry: &'static Entry, targets: &Arc<HostTargets>) -> std::result::Result<String, String> {
    let none = |_: &Fixture| Vec::new();
    let (fixture, act, how) = match entry.proof {
        Proof::Nowhere(why) => return Ok(format!("no harmless proof: {why}")),
        Proof::Naive(trap) => {
            return match trap()? {
                Verdict::Through(what) => Ok(format!("a simple-minded way: {what}")),
                Verdict::Held(why) => Err(format!("even the naive implementation holds: {why}")),
            };
        }
        Proof::Without(disabled_guards) => {
            let fixture = Fixture::start_with_hostile(targets, disabled_guards, limits(entry)).await?;
            let how = describe_guards(&disabled_guards(&fixture));
            (fixture, entry.act, how)
        }
        Proof::WithoutAt(disabled_guards, arguments) => {
            let fixture = Fixture::start_with_hostile(targets, disabled_guards, limits(entry)).await?;
            let how =
                format!("{}: {}", describe_guards(&disabled_guards(&fixture)), arguments[1..].join(" "));
            (fixture, Act::Hostile(arguments), how)
        }
        Proof::OnItself(arguments) => {
            let fixture = Fixture::start_with_hostile(targets, none, limits(entry)).await?;
            (fixture, Act::Hostile(arguments), "on a resource of its own".to_owned())
        }
        Proof::Unlimited => {
            let fixture = Fixture::start_with_hostile(targets, none, Limits::default()).await?;
            (fixture, entry.act, "without the limit".to_owned())
        }
    };
    let verdict = judged(&fixture, act).await;
    let _ = fixture.end().await;
    match verdict? {
        Verdict::Through(_) => Ok(how),
        Verdict::Held(why) => Err(format!("with {how} the attack still failed: {why}")),
    }
}

fn limits(entry: &Entry) -> Limits {
    Limits { cpu_millis: entry.cpu_millis, ..standard_limits() }
}

/// Runs the attempt, and checks the keeper: a blocked keeper counts as success of the attack.
async fn judged(fixture: &Fixture, act: Act) -> std::result::Result<Verdict, String> {
    let verdict = match act {
        Act::Hostile(arguments) => fixture.attempt(arguments).await?,
        Act::Scenario(scene) => scene(fixture).await?,
    };
    let harm = if !fixture.canary_is_intact() {
        Some("the canary outside was changed")
    } else if matches!(act, Act::Hostile(_)) && !fixture.answers().await {
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
    targets: &Arc<HostTargets>,
    neighbour: &Fixture,
) -> std::result::Result<Verdict, String> {
    let fixture = Fixture::start_with_hostile(targets, |_| Vec::new(), limits(entry)).await?;
    let ids = ids_of(&fixture);
    let verdict = judged(&fixture, entry.act).await;
    let ended = fixture.end().await;
    let verdict = match verdict? {
        Verdict::Held(why) => why,
        through @ Verdict::Through(_) => return Ok(through),
    };
    if let Err(why) = ended {
        return Ok(Verdict::Through(format!("it could not be stopped: {why}")));
    }
    let left = leftovers(&fixture, ids);
    if !left.is_empty() {
        return Ok(Verdict::Through(format!("left behind: {left:?}")));
    }
    if !neighbour.answers().await || !neighbour.still_works().await {
        return Ok(Verdict::Through("its neighbour was harmed".into()));
    }
    Ok(Verdict::Held(verdict))
}
