//! `pinfold ps`: what there is, by what it is asked for, and safe to look at.

use crate::ground::{grounds, text};

#[test]
fn it_shows_what_lives_and_on_demand_what_has_ended() {
    for ground in grounds() {
        let id = ground.create(&["--name", "box", "--task", "tsk_9", "--critical"]);
        ground.pinfold(&["run", "--", "false"]);

        let table = text(&ground.pinfold(&["ps"]).stdout);
        let everything = ground.document(&["ps", "--all", "--json"]);

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
fn filters_leave_only_what_was_asked_for() {
    for ground in grounds() {
        let one = ground.create(&["--label", "team=red", "--profile", "validation"]);
        let two = ground.create(&["--label", "team=blue"]);
        let ids = |arguments: &[&str]| -> Vec<String> {
            let listed = ground.document(&[&["ps", "--json"], arguments].concat());
            listed.as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect()
        };

        assert_eq!(ids(&["--label", "team=red"]), [one.as_str()]);
        assert_eq!(ids(&["--agent-type", "VALIDATION"]), [one.as_str()]);
        assert_eq!(ids(&["--agent-type", "default"]), [two.as_str()]);
        assert_eq!(ids(&["--status", "ready"]), [one.as_str(), two.as_str()]);
        assert_eq!(ids(&["--status", "quarantined"]), Vec::<String>::new());
        assert_eq!(ground.pinfold(&["ps", "--status", "sleepy"]).status.code(), Some(2));
    }
}

#[test]
fn what_somebody_named_so_cannot_move_the_cursor() {
    for ground in grounds() {
        ground.create(&["--name", "a\u{1b}[2Jb", "--label", "x=\ny"]);

        let table = text(&ground.pinfold(&["ps"]).stdout);

        assert!(table.contains("a\\u{1b}[2Jb") && table.contains("x=\\u{a}y"), "{table}");
        assert!(!table.contains('\u{1b}'));
    }
}

#[test]
fn a_sandbox_is_found_by_a_beginning_that_no_other_has() {
    for ground in grounds() {
        let one = ground.create(&["--name", "twin"]);
        let two = ground.create(&["--name", "twin"]);
        let common = one.bytes().zip(two.bytes()).take_while(|(a, b)| a == b).count();
        let code = |arguments: &[&str]| ground.document(arguments)["error"]["code"].clone();

        assert_eq!(ground.pinfold(&["exec", &one[..=common], "--", "true"]).status.code(), Some(0));
        assert_eq!(code(&["exec", "--json", &one[..common], "--", "true"]), "ambiguous");
        assert_eq!(code(&["exec", "--json", "twin", "--", "true"]), "ambiguous");
        assert_eq!(code(&["exec", "--json", "sbx_zzz", "--", "true"]), "unknown_sandbox");
    }
}
