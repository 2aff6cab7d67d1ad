//! Runs the commands of `docs/quickstart.md` in order, as root and as an unprivileged user.

use std::fs;

use crate::fixture::{commands_in, fixtures, text};

#[test]
fn every_command_of_the_quick_start_works() {
    for fixture in fixtures() {
        let home = fixture.directory("home");

        let script = format!(
            "trap 'kill $server 2>/dev/null || true' EXIT; server=; {}",
            commands_in("quickstart.md")
        );
        let ran = fixture
            .program("timeout", &["120", "sh", "-eux", "-c", &script])
            .env("PINFOLD_LISTEN", "127.0.0.1:0")
            .current_dir(&home)
            .output()
            .unwrap();

        assert!(ran.status.success(), "{}\n{}", text(&ran.stdout), text(&ran.stderr));
        let output = text(&ran.stdout);
        for expected in ["hello from sbx_", "bounded", "is gone: stopped_by_user", "through the server"] {
            assert!(output.contains(expected), "no `{expected}` in {output}\n{}", text(&ran.stderr));
        }
        assert_eq!(fs::read_to_string(home.join("notes")).unwrap(), "some notes\n");
        assert!(fixture.is_clean());
    }
}
