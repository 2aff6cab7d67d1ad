//! `pinfold stop`: receipts, unknown sandboxes and attestation.

use crate::fixture::{all_absent, fixtures, text};

#[test]
fn repeated_stop_returns_the_same_receipt() {
    for fixture in fixtures() {
        let id = fixture.create(&[]);

        let first = fixture.document(&["stop", "--json", &id]);
        let again = fixture.document(&["stop", "--json", &id]);

        assert!(all_absent(&first[0]), "{first}");
        assert_eq!(first, again);
    }
}

#[test]
fn unknown_sandbox_does_not_prevent_stopping_the_others() {
    for fixture in fixtures() {
        let (one, two) = (fixture.create(&[]), fixture.create(&[]));

        let output = fixture.pinfold(&["stop", "--force", &one, "unknown", &two]);

        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains("there is no sandbox `unknown`"), "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout).matches("is gone: stopped_by_user").count(), 2);
        assert!(text(&output.stdout).contains("processes"), "{}", text(&output.stdout));
        assert!(fixture.is_clean());
    }
}

#[test]
fn attestation_is_accepted_only_for_quarantined_sandboxes() {
    for fixture in fixtures() {
        let id = fixture.create(&[]);

        let attested = fixture.document(&["stop", "--json", "--attest", "--reason", "I unplugged it", &id]);
        let without_reason = fixture.pinfold(&["stop", "--attest", &id]);

        assert_eq!(attested[0]["error"]["code"], "wrong_state", "{attested}");
        assert_eq!(without_reason.status.code(), Some(2));
        assert_eq!(fixture.pinfold(&["exec", &id, "--", "true"]).status.code(), Some(0));
    }
}

#[test]
fn bulk_stop_shows_and_stops_what_its_filters_select() {
    for fixture in fixtures() {
        let red = fixture.create(&["--label", "team=red", "--name", "first"]);
        let task = fixture.create(&["--task", "t1"]);
        let critical = fixture.create(&["--label", "team=red", "--critical"]);
        let left = || -> Vec<String> {
            let document = fixture.document(&["ps", "--json"]);
            document.as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect()
        };

        let dry = fixture.pinfold(&["stop", "--label", "team=red", "--dry-run"]);
        let after_dry = left();
        let none = fixture.pinfold(&["stop", "--all", "--older-than", "1h"]);
        let by_flag = fixture.pinfold(&["stop", "--flag", "old", "--dry-run"]);
        let done = fixture.pinfold(&["stop", "--force", "--label", "team=red"]);
        let after_label = left();
        let cleanup = fixture.pinfold(&["cleanup", "--older-than", "0", "--dry-run"]);
        let all = fixture.pinfold(&["stop", "--force", "--all"]);

        let shown = text(&dry.stdout);
        assert!(
            shown.contains("Found 1 sandboxes") && shown.contains("Would stop") && shown.contains("first"),
            "{shown}"
        );
        assert!(shown.contains(&format!("Kept, critical  {critical}")), "{shown}");
        assert_eq!(after_dry, [red.clone(), task.clone(), critical.clone()]);
        assert!(text(&none.stdout).starts_with("Found 0 sandboxes"), "{}", text(&none.stdout));
        assert!(text(&by_flag.stdout).starts_with("Found 0 sandboxes"), "{}", text(&by_flag.stdout));
        assert!(text(&done.stdout).contains(&format!("{red} is gone")), "{}", text(&done.stdout));
        assert_eq!(after_label, [task.clone(), critical.clone()]);
        assert!(
            text(&cleanup.stdout).contains(&format!("Would stop      {task}")),
            "{}",
            text(&cleanup.stdout)
        );
        assert!(all.status.success(), "{}", text(&all.stderr));
        assert_eq!(left(), [critical], "a critical sandbox is stopped only by name");
    }
}

#[test]
fn stop_without_names_or_with_both_names_and_filters_is_refused() {
    let fixture = fixtures().pop().unwrap();
    for (arguments, expected) in [
        (&["stop"][..], "sandbox: name a sandbox, or select several with --all"),
        (
            &["stop", "--all", "box"],
            "sandbox: name sandboxes, or select them with bulk options, but not both",
        ),
        (&["stop", "--dry-run", "box"], "--dry-run needs --all"),
    ] {
        let output = fixture.pinfold(arguments);

        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    }
}
