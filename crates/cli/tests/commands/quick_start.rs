//! The commands of `docs/quickstart.md`, run in their order as root and as an ordinary user, so that they cannot rot.

use std::fs;

use crate::ground::{commands_in, grounds, text};

#[test]
fn every_command_of_the_quick_start_works() {
    for ground in grounds() {
        let home = ground.place("home");

        let script = format!(
            "trap 'kill $server 2>/dev/null || true' EXIT; server=; {}",
            commands_in("quickstart.md")
        );
        let ran = ground
            .program("timeout", &["120", "sh", "-eux", "-c", &script])
            .env("PINFOLD_LISTEN", "127.0.0.1:0")
            .current_dir(&home)
            .output()
            .unwrap();

        assert!(ran.status.success(), "{}\n{}", text(&ran.stdout), text(&ran.stderr));
        let said = text(&ran.stdout);
        for expected in ["hello from sbx_", "bounded", "is gone: stopped_by_user", "through the server"] {
            assert!(said.contains(expected), "no `{expected}` in {said}\n{}", text(&ran.stderr));
        }
        assert_eq!(fs::read_to_string(home.join("notes")).unwrap(), "some notes\n");
        assert!(ground.is_clean());
    }
}
