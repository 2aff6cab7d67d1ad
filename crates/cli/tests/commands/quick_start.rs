//! Runs the commands of `docs/quickstart.md` in order, as root and as an unprivileged user.

use std::fs;
use std::os::unix::fs::symlink;

use crate::fixture::{commands_in, fixtures, text};

#[test]
fn every_command_of_the_quick_start_works() {
    for fixture in fixtures() {
        let home = fixture.directory("home");

        let script = format!(
            "trap 'kill $server 2>/dev/null || true' EXIT; server=; {}",
            commands_in("quickstart.md")
        );
        let mut command = fixture.program("timeout", &["120", "sh", "-eux", "-c", &script]);
        if !fixture.has_groups() {
            // An ordinary user has a data directory in the home directory.
            let share = home.join(".local/share");
            fs::create_dir_all(&share).unwrap();
            symlink(fixture.data(), share.join("pinfold")).unwrap();
            command.env("HOME", &home).env_remove("PINFOLD_DATA_DIR").env_remove("XDG_DATA_HOME");
        }
        let ran = command.env("PINFOLD_LISTEN", "127.0.0.1:0").current_dir(&home).output().unwrap();

        assert!(ran.status.success(), "{}\n{}", text(&ran.stdout), text(&ran.stderr));
        let output = text(&ran.stdout);
        for expected in ["hello from sbx_", "bounded", "is gone: stopped_by_user", "through the server"] {
            assert!(output.contains(expected), "no `{expected}` in {output}\n{}", text(&ran.stderr));
        }
        assert_eq!(fs::read_to_string(home.join("notes")).unwrap(), "some notes\n");
        assert!(fixture.is_clean());
    }
}
