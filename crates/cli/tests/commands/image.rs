//! `pinfold image`: import, list, remove.

use std::fs;

use crate::ground::{grounds, text};

#[test]
fn a_directory_is_imported_listed_and_removed() {
    for ground in grounds() {
        let source = tempfile::tempdir().unwrap();
        fs::set_permissions(source.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        fs::write(source.path().join("hello"), "hello").unwrap();
        let path = source.path().to_str().unwrap();

        let imported = ground.document(&["image", "import", "--json", path, "small"]);
        let listed = ground.document(&["image", "ls", "--json"]);
        let table = text(&ground.pinfold(&["image", "ls"]).stdout);
        let removed = ground.document(&["image", "rm", "--json", "small"]);

        assert!(imported["id"].as_str().unwrap().starts_with("sha256:"), "{imported}");
        assert_eq!((&listed[0]["name"], &listed[0]["id"]), (&"small".into(), &imported["id"]));
        assert!(table.contains("small") && table.lines().count() == 2, "{table}");
        assert_eq!(removed[0]["id"], imported["id"]);
        assert_eq!(ground.document(&["image", "ls", "--json"]).as_array().unwrap().len(), 0);
        assert_eq!(ground.pinfold(&["image", "rm", "small"]).status.code(), Some(1));
    }
}
