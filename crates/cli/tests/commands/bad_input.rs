//! Bad options are refused before anything is created, with the field, the value and the allowed range.

use std::fs;

use crate::fixture::{fixtures, text};

#[test]
fn bad_option_is_refused_by_name_and_nothing_is_created() {
    let table: [(&[&str], &str); 15] = [
        (&["--memory", "0"], "memory: 0 MiB is not allowed; allowed is from 4 MiB"),
        (&["--memory", "3m"], "memory: 3 MiB is not allowed"),
        (&["--memory", "lots"], "`lots` is not a size; write MiB as 512"),
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
        (&["--workdir", "here"], "workdir: must begin with `/`"),
    ];
    let fixture = fixtures().pop().unwrap();
    for (options, expected) in table {
        let output = fixture.pinfold(&[&["run"], options, &["--", "true"]].concat());
        let document = fixture.document(&[&["create", "--json"], options].concat());

        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
        assert!(document["error"]["message"].as_str().unwrap().contains(expected), "{document}");
    }
    assert_eq!(fs::read_dir(fixture.data()).unwrap().count(), 0, "a refused command created something");
}

#[test]
fn unknown_image_is_refused_by_name() {
    let fixture = fixtures().pop().unwrap();

    let output = fixture.pinfold(&["run", "--image", "nowhere", "--", "true"]);

    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("nowhere"), "{}", text(&output.stderr));
}

#[test]
fn usage_error_is_json_only_with_the_json_option() {
    let fixture = fixtures().pop().unwrap();

    let document = fixture.document(&["run", "--json", "--no-such-option", "--", "true"]);
    let plain = fixture.pinfold(&["run", "--no-such-option", "--", "--json"]);

    assert_eq!(document["error"]["code"], "bad_usage");
    assert_eq!((plain.status.code(), plain.stdout.len()), (Some(2), 0));
}
