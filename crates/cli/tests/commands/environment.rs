//! `--env NAME` and `--env-file`: values from the caller's environment and from files, so that no secret is on a command
//! line.

use std::fs;

use crate::fixture::{Fixture, fixtures, text};

const PRINT: [&str; 4] = ["--", "sh", "-c", "echo \"$FROM_CALLER|$FROM_FILE|$QUOTED|$EMPTY|$OPTION\""];

fn write(fixture: &Fixture, content: &str) -> String {
    let path = fixture.directory("files").join("secrets.env");
    fs::write(&path, content).unwrap();
    path.display().to_string()
}

#[test]
fn variables_come_from_the_caller_and_from_a_file() {
    for fixture in fixtures() {
        let file = write(
            &fixture,
            "# a comment\n\n  \nFROM_FILE=a=b\nQUOTED=\"kept as it is\"\nEMPTY=\nFROM_CALLER\nOPTION=file\n",
        );
        let options = ["--env-file", file.as_str(), "--env", "OPTION=wins"];
        let with = |arguments: &[&str]| {
            let output = fixture.command(arguments).env("FROM_CALLER", "hunter2").output().unwrap();
            (text(&output.stdout), text(&output.stderr))
        };

        let run = with(&[&["run"], &options[..], &PRINT].concat());
        let id = fixture.create(&[]);
        let exec = with(&[&["exec", &id], &options[..], &PRINT].concat());
        let created = with(&[&["create"], &options[..]].concat()).0;
        let in_created = with(&[&["exec", created.trim()], &PRINT[..]].concat());
        let named = with(&["exec", &id, "--env", "FROM_CALLER", "--", "sh", "-c", "echo $FROM_CALLER"]);

        let expected = "hunter2|a=b|\"kept as it is\"||wins\n";
        assert_eq!((run.0.as_str(), exec.0.as_str()), (expected, expected), "{run:?} {exec:?}");
        assert_eq!(in_created.0, expected, "{in_created:?}");
        assert_eq!(named.0, "hunter2\n", "{named:?}");
    }
}

#[test]
fn absent_variable_or_malformed_file_is_refused_with_its_location() {
    let fixture = fixtures().pop().unwrap();
    let id = fixture.create(&[]);
    let refused = |options: &[&str], expected: &str| {
        for command in [&["run"][..], &["create"], &["exec", &id]] {
            let tail: &[&str] = if command[0] == "create" { &[] } else { &["--", "true"] };
            let mut command = fixture.command(&[command, options, tail].concat());
            let output = command.env_remove("ABSENT").output().unwrap();
            let message = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{message}");
            assert!(message.contains(expected), "{message}");
        }
    };

    refused(
        &["--env", "ABSENT"],
        "env: `ABSENT` is not set in your environment; set it, or write ABSENT=VALUE",
    );
    refused(&["--env-file", "/nonexistent/file"], "env-file: could not read `/nonexistent/file`");
    let file = write(&fixture, "GOOD=1\n\nABSENT\n");
    refused(&["--env-file", &file], &format!("env-file: {file}:3: `ABSENT` is not set in your environment"));
    let file = write(&fixture, "GOOD=1\n=value\n");
    refused(&["--env-file", &file], &format!("env-file: {file}:2: a variable needs a name before `=`"));
    let file = write(&fixture, "two words=1\n");
    refused(
        &["--env-file", &file],
        &format!("env-file: {file}:1: the name `two words` must not contain spaces"),
    );
}
