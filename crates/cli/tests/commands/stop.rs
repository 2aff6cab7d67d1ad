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
