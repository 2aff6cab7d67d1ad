//! What makes no sense is refused before anything is made: with the field, the value and what is allowed.

use std::fs;

use crate::ground::{grounds, text};

#[test]
fn nonsense_is_refused_by_name_and_nothing_is_made() {
    let table: [(&[&str], &str); 15] = [
        (&["--memory", "0"], "memory: 0 MiB is not allowed; allowed is from 4 MiB"),
        (&["--memory", "3m"], "memory: 3 MiB is not allowed"),
        (&["--memory", "lots"], "`lots` is no size; write MiB as 512"),
        (&["--memory", "99999999999"], "memory: 99999999999 MiB is not allowed"),
        (&["--cpus", "0"], "cpus: 0.000 cores is not allowed"),
        (&["--pids", "0"], "pids: 0 is not allowed"),
        (&["--disk", "0"], "disk: 0 MiB is not allowed"),
        (&["--operations", "0"], "operations: 0 is not allowed; allowed is from 1 to 1000000000"),
        (&["--operations", "1000000001"], "operations: 1000000001 is not allowed; allowed is from 1"),
        (&["--timeout", "0"], "timeout: 0 s is not allowed"),
        (&["--timeout", "2h", "--max-life", "1h"], "timeout: 7200 s is longer than the sandbox's max-life"),
        (
            &["--timeout", "5", "--inactivity-timeout", "6"],
            "inactivity-timeout: 6 s is longer than the timeout",
        ),
        (&["--profile", "WIZARD"], "there is no profile `WIZARD`; there are default, ELICITATION"),
        (&["--net", "allow=example.org"], "egress is not available in this version"),
        (&["--workdir", "here"], "workdir: it does not begin with `/`"),
    ];
    let ground = grounds().pop().unwrap();
    for (options, expected) in table {
        let output = ground.pinfold(&[&["run"], options, &["--", "true"]].concat());
        let document = ground.document(&[&["create", "--json"], options].concat());

        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
        assert!(document["error"]["message"].as_str().unwrap().contains(expected), "{document}");
    }
    assert_eq!(fs::read_dir(ground.data()).unwrap().count(), 0, "something was made");
}

#[test]
fn an_image_that_is_not_there_is_refused() {
    let ground = grounds().pop().unwrap();

    let output = ground.pinfold(&["run", "--image", "nowhere", "--", "true"]);

    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("nowhere"), "{}", text(&output.stderr));
}

#[test]
fn bad_usage_is_a_document_only_for_those_who_asked_for_one() {
    let ground = grounds().pop().unwrap();

    let document = ground.document(&["run", "--json", "--no-such-option", "--", "true"]);
    let plain = ground.pinfold(&["run", "--no-such-option", "--", "--json"]);

    assert_eq!(document["error"]["code"], "bad_usage");
    assert_eq!((plain.status.code(), plain.stdout.len()), (Some(2), 0));
}
