//! `pinfold ps`: listing, filters and prefixes.

use crate::fixture::{fixtures, text};

#[test]
fn ps_lists_live_sandboxes_and_with_all_ended_ones() {
    for fixture in fixtures() {
        let id = fixture.create(&["--name", "box", "--task", "tsk_9", "--critical"]);
        fixture.pinfold(&["run", "--", "false"]);

        let table = text(&fixture.pinfold(&["ps"]).stdout);
        let everything = fixture.document(&["ps", "--all", "--json"]);

        let line = table.lines().find(|line| line.starts_with(&id)).unwrap();
        for word in ["box", "ready", "default", "tsk_9", "critical"] {
            assert!(line.contains(word), "{line}");
        }
        assert_eq!((table.lines().count(), table.contains('\u{1b}')), (2, false), "{table}");
        assert_eq!(everything.as_array().unwrap().len(), 2);
        assert_eq!(
            (&everything[1]["status"], &everything[1]["cause"]),
            (&"failed".into(), &"exit_nonzero".into())
        );
    }
}

#[test]
fn ps_filters_select_matching_sandboxes() {
    for fixture in fixtures() {
        let one = fixture.create(&["--label", "team=red", "--profile", "validation"]);
        let two = fixture.create(&["--label", "team=blue"]);
        let ids = |arguments: &[&str]| -> Vec<String> {
            let listed = fixture.document(&[&["ps", "--json"], arguments].concat());
            listed.as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect()
        };

        assert_eq!(ids(&["--label", "team=red"]), [one.as_str()]);
        assert_eq!(ids(&["--agent-type", "VALIDATION"]), [one.as_str()]);
        assert_eq!(ids(&["--agent-type", "default"]), [two.as_str()]);
        assert_eq!(ids(&["--status", "ready"]), [one.as_str(), two.as_str()]);
        assert_eq!(ids(&["--status", "quarantined"]), Vec::<String>::new());
        assert_eq!(fixture.pinfold(&["ps", "--status", "sleepy"]).status.code(), Some(2));
    }
}

#[test]
fn sandbox_is_found_by_a_unique_id_prefix() {
    for fixture in fixtures() {
        let (one, two) = (fixture.create(&[]), fixture.create(&[]));
        let common = one.bytes().zip(two.bytes()).take_while(|(a, b)| a == b).count();
        let code = |arguments: &[&str]| fixture.document(arguments)["error"]["code"].clone();

        assert_eq!(fixture.pinfold(&["exec", &one[..=common], "--", "true"]).status.code(), Some(0));
        assert_eq!(code(&["exec", "--json", &one[..common], "--", "true"]), "ambiguous");
        assert_eq!(code(&["exec", "--json", "sbx_zzz", "--", "true"]), "unknown_sandbox");
    }
}
