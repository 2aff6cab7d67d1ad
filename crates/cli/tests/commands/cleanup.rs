//! `pinfold cleanup`: what it found, what became of each, what it kept, and what it did before.

use rustix::process::Signal;

use crate::ground::{all_absent, grounds, text};
use crate::serve::Server;

#[test]
fn what_is_not_stuck_is_left_alone() {
    for ground in grounds() {
        let id = ground.create(&[]);

        let done = ground.pinfold(&["cleanup"]);

        assert!(done.status.success(), "{}", text(&done.stderr));
        assert_eq!(text(&done.stdout).lines().next(), Some("Found 0 stuck sandboxes among 1"));
        assert!(text(&done.stdout).contains("Bulk cleanup completed: 0 ended, 0 failed"));
        assert_eq!(ground.pinfold(&["exec", &id, "--", "true"]).status.code(), Some(0));
    }
}

#[test]
fn an_emergency_ends_what_is_not_critical_and_says_what_it_kept() {
    for ground in grounds() {
        let (one, critical) = (ground.create(&[]), ground.create(&["--critical"]));

        let said = ground.document(&["cleanup", "--emergency", "--dry-run", "--json"]);
        let told = text(&ground.pinfold(&["cleanup", "--emergency", "--dry-run"]).stdout).to_owned();
        let done = ground.document(&["cleanup", "--emergency", "--json"]);
        let runs = ground.document(&["cleanup", "--runs", "--json"]);
        let table = text(&ground.pinfold(&["cleanup", "--runs"]).stdout).to_owned();

        assert_eq!((&said["dry_run"], &said["found"]), (&true.into(), &done["found"]));
        assert!(told.contains(&format!("Would clean up  {one}  emergency")), "{told}");
        assert!(told.contains(&format!("Kept            {critical}  critical")), "{told}");
        assert_eq!(done["ended"][0]["sandbox_id"], one.as_str(), "{done}");
        assert!(all_absent(&done["ended"][0]["receipt"]), "{done}");
        assert_eq!(done["kept"][0]["sandbox_id"], critical.as_str(), "{done}");
        assert_eq!((&runs["runs"][0]["layer"], &runs["runs"][0]["ended"]), (&"emergency".into(), &1.into()));
        assert!(table.contains("LAYER") && table.contains("emergency"), "{table}");
        assert_eq!(ground.pinfold(&["exec", &critical, "--", "true"]).status.code(), Some(0));
    }
}

const LAYERS: [(&str, &str); 4] = [
    ("scheduled", "stuck sandboxes"),
    ("by_age", "stuck sandboxes"),
    ("pressure", "sandboxes that can be spared"),
    ("reconcile", "sandboxes whose record and body differ"),
];

#[test]
fn every_layer_can_be_asked_for_with_a_server_and_without() {
    for ground in grounds() {
        // A host that runs short while this is tested ends none of these.
        let id = ground.create(&["--critical"]);
        let server = Server::begin(&ground, &[]);

        for ((layer, what), plane) in LAYERS.into_iter().flat_map(|it| [(it, &[][..]), (it, &["--local"])]) {
            let command = [plane, &["cleanup", "--layer", layer]].concat();
            let told = text(&ground.pinfold(&[&command[..], &["--dry-run"]].concat()).stdout);
            let said = ground.document(&[&command[..], &["--dry-run", "--json"]].concat());
            let done = ground.document(&[&command[..], &["--json"]].concat());

            assert!(told.starts_with(&format!("Found 0 {what} among ")), "{layer}: {told}");
            assert_eq!((&said["layer"], &said["dry_run"]), (&layer.into(), &true.into()), "{said}");
            assert_eq!((&done["layer"], &done["dry_run"]), (&layer.into(), &false.into()), "{done}");
        }
        let runs = ground.document(&["cleanup", "--runs", "--json"]);
        let by_hand = runs["runs"].as_array().unwrap().iter().filter(|run| run["due_at"].is_null());
        let of = |layer: &str| by_hand.clone().filter(|run| run["layer"] == layer).count();
        assert_eq!(LAYERS.map(|(layer, _)| of(layer)), [2; 4], "a dry run is none: {runs}");
        assert_eq!(ground.pinfold(&["exec", &id, "--", "true"]).status.code(), Some(0));
        server.end_with(Signal::TERM);
    }
}

#[test]
fn a_layer_that_there_is_not_is_refused_with_those_that_there_are() {
    let ground = grounds().remove(0);

    let wrong = ground.pinfold(&["cleanup", "--layer", "emergency"]);
    let both = ground.pinfold(&["cleanup", "--layer", "by_age", "--emergency"]);

    assert_eq!((wrong.status.code(), both.status.code()), (Some(2), Some(2)));
    let told = text(&wrong.stderr);
    assert!(told.contains("scheduled, by_age, pressure, reconcile"), "{told}");
    assert!(text(&both.stderr).contains("cannot be used with"), "{}", text(&both.stderr));
}
