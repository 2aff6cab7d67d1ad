//! `pinfold stop`: receipts for what is gone, and a plain word for what is not known.

use crate::ground::{all_absent, grounds, text};

#[test]
fn what_is_gone_gives_the_same_receipt_again() {
    for ground in grounds() {
        let id = ground.create(&[]);

        let first = ground.document(&["stop", "--json", &id]);
        let again = ground.document(&["stop", "--json", &id]);

        assert!(all_absent(&first[0]), "{first}");
        assert_eq!(first, again);
    }
}

#[test]
fn one_that_is_not_known_does_not_keep_the_others_alive() {
    for ground in grounds() {
        let (one, two) = (ground.create(&[]), ground.create(&[]));

        let output = ground.pinfold(&["stop", "--force", &one, "nobody", &two]);

        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains("there is no sandbox `nobody`"), "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout).matches("is gone: stopped_by_user").count(), 2);
        assert!(text(&output.stdout).contains("processes"), "{}", text(&output.stdout));
        assert!(ground.is_clean());
    }
}

#[test]
fn a_word_is_taken_only_for_what_is_quarantined() {
    for ground in grounds() {
        let id = ground.create(&[]);

        let attested = ground.document(&["stop", "--json", "--attest", "--reason", "I unplugged it", &id]);
        let without_reason = ground.pinfold(&["stop", "--attest", &id]);

        assert_eq!(attested[0]["error"]["code"], "wrong_state", "{attested}");
        assert_eq!(without_reason.status.code(), Some(2));
        assert_eq!(ground.pinfold(&["exec", &id, "--", "true"]).status.code(), Some(0));
    }
}
