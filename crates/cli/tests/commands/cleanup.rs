//! `pinfold cleanup`: results, kept sandboxes and past runs.

use rustix::process::Signal;

use crate::fixture::{all_absent, fixtures, text};
use crate::serve::Server;

#[test]
fn cleanup_leaves_healthy_sandboxes_alone() {
    for fixture in fixtures() {
        let id = fixture.create(&[]);

        let done = fixture.pinfold(&["cleanup"]);

        assert!(done.status.success(), "{}", text(&done.stderr));
        assert_eq!(text(&done.stdout).lines().next(), Some("Found 0 sandboxes to clean up among 1"));
        assert!(text(&done.stdout).contains("Bulk cleanup completed: 0 ended, 0 failed"));
        assert_eq!(fixture.pinfold(&["exec", &id, "--", "true"]).status.code(), Some(0));
    }
}

#[test]
fn emergency_cleanup_stops_non_critical_sandboxes_and_lists_kept_ones() {
    for fixture in fixtures() {
        let (one, critical) = (fixture.create(&[]), fixture.create(&["--critical"]));

        let document = fixture.document(&["cleanup", "--emergency", "--dry-run", "--json"]);
        let output = text(&fixture.pinfold(&["cleanup", "--emergency", "--dry-run"]).stdout).to_owned();
        let done = fixture.document(&["cleanup", "--emergency", "--json"]);
        let runs = fixture.document(&["cleanup", "--runs", "--json"]);
        let table = text(&fixture.pinfold(&["cleanup", "--runs"]).stdout).to_owned();

        assert_eq!((&document["dry_run"], &document["found"]), (&true.into(), &done["found"]));
        assert!(output.contains(&format!("Would clean up  {one}  emergency")), "{output}");
        assert!(output.contains(&format!("Kept            {critical}  critical")), "{output}");
        assert_eq!(done["ended"][0]["sandbox_id"], one.as_str(), "{done}");
        assert!(all_absent(&done["ended"][0]["receipt"]), "{done}");
        assert_eq!(done["kept"][0]["sandbox_id"], critical.as_str(), "{done}");
        assert_eq!((&runs["runs"][0]["layer"], &runs["runs"][0]["ended"]), (&"emergency".into(), &1.into()));
        assert!(table.contains("LAYER") && table.contains("emergency"), "{table}");
        assert_eq!(fixture.pinfold(&["exec", &critical, "--", "true"]).status.code(), Some(0));
    }
}

const LAYERS: [(&str, &str); 4] = [
    ("scheduled", "sandboxes to clean up"),
    ("by_age", "sandboxes to clean up"),
    ("pressure", "idle sandboxes"),
    ("reconcile", "sandboxes whose record and instance differ"),
];

#[test]
fn every_cleanup_layer_runs_with_and_without_a_server() {
    for fixture in fixtures() {
        // Critical, so that pressure on a busy test host does not stop them.
        let id = fixture.create(&["--critical"]);
        let server = Server::begin(&fixture, &[]);

        for ((layer, what), backend) in LAYERS.into_iter().flat_map(|it| [(it, &[][..]), (it, &["--local"])])
        {
            let command = [backend, &["cleanup", "--layer", layer]].concat();
            let output = text(&fixture.pinfold(&[&command[..], &["--dry-run"]].concat()).stdout);
            let document = fixture.document(&[&command[..], &["--dry-run", "--json"]].concat());
            let done = fixture.document(&[&command[..], &["--json"]].concat());

            assert!(output.starts_with(&format!("Found 0 {what} among ")), "{layer}: {output}");
            assert_eq!(
                (&document["layer"], &document["dry_run"]),
                (&layer.into(), &true.into()),
                "{document}"
            );
            assert_eq!((&done["layer"], &done["dry_run"]), (&layer.into(), &false.into()), "{done}");
        }
        let runs = fixture.document(&["cleanup", "--runs", "--json"]);
        let by_hand = runs["runs"].as_array().unwrap().iter().filter(|run| run["due_at"].is_null());
        let of = |layer: &str| by_hand.clone().filter(|run| run["layer"] == layer).count();
        assert_eq!(LAYERS.map(|(layer, _)| of(layer)), [2; 4], "a dry run is not recorded: {runs}");
        assert_eq!(fixture.pinfold(&["exec", &id, "--", "true"]).status.code(), Some(0));
        server.end_with(Signal::TERM);
    }
}

#[test]
fn unknown_cleanup_layer_is_refused_with_the_known_ones() {
    let fixture = fixtures().remove(0);

    let wrong = fixture.pinfold(&["cleanup", "--layer", "emergency"]);
    let both = fixture.pinfold(&["cleanup", "--layer", "by_age", "--emergency"]);

    assert_eq!((wrong.status.code(), both.status.code()), (Some(2), Some(2)));
    let output = text(&wrong.stderr);
    assert!(output.contains("scheduled, by_age, pressure, reconcile"), "{output}");
    assert!(text(&both.stderr).contains("cannot be used with"), "{}", text(&both.stderr));
}
