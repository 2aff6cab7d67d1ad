//! `pinfold cleanup`: what it found, what became of each, what it kept, and what it did before.

use crate::ground::{all_absent, grounds, text};

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
