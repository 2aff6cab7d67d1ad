//! The image `host` has what common programs read in `/etc`, and nothing secret.

use std::path::Path;

use crate::fixture::{fixtures, text};

/// A program of the host, and a script that needs more of `/etc` than its own files.
const PROGRAMS: [(&str, &str); 4] = [
    (
        "openssl",
        "openssl req -new -x509 -newkey rsa:2048 -nodes -keyout /tmp/k -out /tmp/c -subj /CN=x -days 1",
    ),
    ("getent", "getent protocols tcp && getent services http"),
    ("java", "java -Djava.security.debug=properties -version"),
    ("cat", "grep -q ^ID= /etc/os-release"),
];

#[test]
fn programs_of_the_host_find_their_files_in_etc() {
    for fixture in fixtures() {
        for (program, script) in PROGRAMS {
            if !["/usr/bin", "/bin"].iter().any(|directory| Path::new(directory).join(program).exists()) {
                continue;
            }
            let output = fixture.pinfold(&["run", "sh", "-c", script]);

            assert_eq!(output.status.code(), Some(0), "{program}: {}", text(&output.stderr));
        }
    }
}

/// A sandbox of an ordinary user has one user id, so `su` cannot change to another one.
#[test]
fn su_changes_the_user_in_a_sandbox_of_root() {
    let fixture = fixtures().remove(0);
    if !fixture.has_groups() || !Path::new("/etc/pam.d/su").exists() {
        return pinfold_test_support::skip(
            "su_changes_the_user_in_a_sandbox_of_root",
            "it needs root, and a host with PAM",
        );
    }
    let output = fixture.pinfold(&["run", "su", "-s", "/bin/sh", "nobody", "-c", "id -u"]);

    assert_eq!(text(&output.stdout), "65534\n", "{}", text(&output.stderr));
}

#[test]
fn etc_of_a_sandbox_has_no_secret_of_the_host() {
    for fixture in fixtures() {
        let script =
            "ls -d /etc/shadow* /etc/gshadow* /etc/ssh /etc/ssl/private /etc/sudoers /etc/environment; true";

        let output = fixture.pinfold(&["run", "sh", "-c", script]);

        assert_eq!(text(&output.stdout), "", "{}", text(&output.stderr));
    }
}
