//! Input that no option parser, file format or limit allows is refused with the field and the fix: no panic, no Rust
//! type name, and the documented exit code.

use std::fs;
use std::process::Output;

use crate::fixture::{Fixture, fixtures, text};

/// Names of types, and words of panics, that mean nothing to a user.
const INTERNAL_WORDS: [&str; 10] =
    ["panicked", "RUST_BACKTRACE", "u16", "u32", "u64", "usize", "f64", "i128", "struct ", "::"];

fn assert_refused(output: &Output, code: i32, expected: &str, given: &str) {
    let message = text(&output.stderr);
    assert!(message.contains(expected), "{given}: no `{expected}` in: {message}");
    assert_eq!(output.status.code(), Some(code), "{given}: {message}");
    let internal: Vec<_> = INTERNAL_WORDS.iter().filter(|word| message.contains(**word)).collect();
    assert!(internal.is_empty(), "{given}: {internal:?} in: {message}");
}

fn fixture() -> Fixture {
    fixtures().pop().unwrap()
}

#[test]
fn negative_or_malformed_option_is_refused_by_its_name() {
    let fixture = fixture();
    for (option, value, expected) in [
        ("--memory", "-1", "'--memory <SIZE>': `-1` is negative; write MiB as 512"),
        ("--disk", "-1", "'--disk <SIZE>': `-1` is negative; write MiB as 512"),
        ("--cpus", "-1", "'--cpus <CORES>': `-1` is not a number of cores"),
        ("--pids", "-1", "'--pids <COUNT>': `-1` is not a whole number of 0 or more"),
        ("--pids", "many", "'--pids <COUNT>': `many` is not a whole number of 0 or more"),
        ("--operations", "1.5", "'--operations <COUNT>': `1.5` is not a whole number of 0 or more"),
        ("--timeout", "-5", "'--timeout <TIME>': `-5` is negative; write seconds as 90"),
        ("--idle-timeout", "-5s", "'--idle-timeout <TIME>': `-5s` is negative; write seconds as 90"),
        ("--queue", "-1", "'--queue <TIME>': `-1` is negative"),
        ("--name", "a\nb", "name: must not contain control characters"),
        ("--name", "", "name: must not be empty"),
        ("--task", "a\tb", "task_id: must not contain control characters"),
        ("--label", "a\nb=c", "labels: the name `a\\nb` must not contain control characters"),
        ("--env", "A\nB=c", "env: `A\\nB` is not a variable name"),
    ] {
        let output = fixture.pinfold(&["create", option, value]);

        assert_refused(&output, 2, expected, &format!("{option} {value:?}"));
    }
    assert_eq!(fs::read_dir(fixture.data()).unwrap().count(), 0, "a refused command created something");
}

#[test]
fn server_address_is_refused_with_the_part_that_is_wrong() {
    let fixture = fixture();
    for (url, expected) in [
        ("nonsense", "`nonsense` is not a server address; use http://HOST:PORT"),
        ("ftp://host:1", "`ftp://host:1` is not a server address; use http://HOST:PORT"),
        ("http://", "`http://` is not a server address; use http://HOST:PORT"),
        ("http://h:99999", "`http://h:99999`: the port must be 1 to 65535"),
        ("http://me:hunter2@127.0.0.1:1", "leave out the name and password; set PINFOLD_TOKEN"),
        ("http://127.0.0.1:1/path", "leave out the path `/path`"),
        ("http://127.0.0.1:1/?a=b", "leave out the path `/?a=b`"),
    ] {
        let mut command = fixture.command(&["ps", "--url", url]);

        let output = command.env("PINFOLD_TOKEN", "secret").output().unwrap();

        assert_refused(&output, 2, expected, url);
        assert!(!text(&output.stderr).contains("hunter2"), "{}", text(&output.stderr));
    }
}

#[test]
fn configuration_value_is_refused_with_key_value_bound_and_line() {
    let fixture = fixture();
    for (settings, expected) in [
        (
            "[engine]\nlaunches = 9223372036854775807\n",
            "engine.launches: 9223372036854775807 is not allowed; the range is 1 to 1000",
        ),
        ("[engine]\nlaunches = 99999999999999999999\n", "engine.launches: 99999999999999999999 is not"),
        ("[engine]\nlaunches = \"x\"\n", "engine.launches: expected a whole number"),
        ("[engine]\nlaunches = -1\n", "engine.launches: -1 is not allowed; the range is 1 to 1000"),
        ("engine = 1\n", "engine: expected a table"),
        ("[server]\nnames = 1\n", "server.names: expected a list"),
        ("[server]\nlisten = 1\n", "server.listen: expected text in quotes"),
        ("[server]\nwithout_tls = 1\n", "server.without_tls: expected true or false"),
        ("[cleanup]\npressure = \"x\"\n", "cleanup.pressure: expected a number"),
        (
            "[warm]\nsizes = { default = -1 }\n",
            "warm.sizes.default: -1 is not allowed; the range is 0 to 1000",
        ),
        (
            "[profiles.VALIDATION]\nmemory_mb = 9223372036854775807\n",
            "profiles.VALIDATION.memory_mb: 9223372036854775807 MiB is not allowed",
        ),
    ] {
        fs::write(fixture.data().join("pinfold.toml"), settings).unwrap();

        let output = fixture.pinfold(&["config", "show"]);

        assert_refused(&output, 2, expected, settings);
        let line = if settings.starts_with('[') { 2 } else { 1 };
        let location = format!("pinfold.toml:{line}");
        assert!(text(&output.stderr).contains(&location), "no {location} in {}", text(&output.stderr));
    }
}

#[test]
fn variable_is_refused_with_its_name_value_and_bound() {
    let fixture = fixture();
    for (variable, value, expected) in [
        ("PINFOLD_ENGINE_LAUNCHES", "x", "engine.launches: `x` is not a whole number"),
        (
            "PINFOLD_ENGINE_LAUNCHES",
            "9223372036854775807",
            "engine.launches: 9223372036854775807 is not allowed; the range is 1 to 1000",
        ),
        ("PINFOLD_LISTEN", "x", "server.listen: `x` is not an address; write 127.0.0.1:7463"),
        ("PINFOLD_SANDBOXES_IDLE", "soon", "sandboxes.idle: `soon` is not a time"),
        ("PINFOLD_WITHOUT_TLS", "perhaps", "server.without_tls: expected true or false, not 'perhaps'"),
    ] {
        let output = fixture.command(&["config", "show"]).env(variable, value).output().unwrap();

        assert_refused(&output, 2, expected, &format!("{variable}={value}"));
        assert!(text(&output.stderr).contains(variable), "{}", text(&output.stderr));
    }
}

/// The limit counts the processes of one user. It does not bind root, so the test needs the unprivileged fixture.
#[test]
fn start_without_room_for_threads_is_refused_with_the_limit_to_raise() {
    let fixture = fixture();
    if fixture.has_groups() {
        return pinfold_test_support::skip(
            "start_without_room_for_threads_is_refused_with_the_limit_to_raise",
            "the limit does not bind root, and there is no other user",
        );
    }
    for (command, code) in [("run -- true", 125), ("ps", 1), ("serve --listen 127.0.0.1:0", 1)] {
        let script = format!("ulimit -u 1; exec pinfold {command}");

        let output = fixture.program("bash", &["-c", &script]).output().unwrap();

        assert_refused(&output, code, "raise the limit of processes with `ulimit -u`", command);
    }
}
