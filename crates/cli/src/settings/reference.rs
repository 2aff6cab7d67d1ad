//! Generates `docs/configuration.md` from the definitions. A test compares the two; with `PINFOLD_BLESS=1` in the
//! environment it rewrites the file.

use std::fmt::Write as _;
use std::path::Path;

use confique::Config;
use confique::meta::{FieldKind, LeafKind, Meta};

use super::bounds::bounds_of;
use super::{ProfileSettings, Settings};

const INTRODUCTION: &str = "\
# Configuration

Generated from the program's definitions; regenerate it with `PINFOLD_BLESS=1 cargo test -p pinfold-cli reference`.

`pinfold serve` reads `pinfold.toml` in the data directory, or the file named by `--config`. Environment variables
override the file, and command line options override both. Unknown keys and invalid values are refused, with their
location, before anything starts. `pinfold config show` prints the effective values and where each comes from;
`pinfold config template` prints a file with every setting.

Commands that work without a server read the file in the data directory too, but do not maintain the pool (`[warm]`).
";

fn reference() -> String {
    let mut text = INTRODUCTION.to_owned();
    let _ = write!(text, "\n{}\n", joined(Settings::META.doc));
    for field in Settings::META.fields {
        match field.kind {
            FieldKind::Nested { meta } => section(field.name, meta, &mut text),
            FieldKind::Leaf { .. } => {
                let _ = write!(text, "\n## `[{}]`\n\n{}\n", field.name, joined(field.doc));
            }
        }
    }
    let keys = serde_json::to_value(ProfileSettings::default()).unwrap();
    let keys: Vec<_> = keys.as_object().unwrap().keys().map(|key| format!("`{key}`")).collect();
    let _ = write!(
        text,
        "\nKeys of a profile: {}.\nThe defaults of each type are in [the reference of commands](cli.md#profiles).\n",
        keys.join(", ")
    );
    text
}

fn section(name: &str, meta: &Meta, text: &mut String) {
    let _ = write!(text, "\n## `[{name}]`\n\n{}\n\n", joined(meta.doc));
    text.push_str("| key | default | range | environment | |\n|---|---|---|---|---|\n");
    for field in meta.fields {
        let FieldKind::Leaf { env, kind } = field.kind else { continue };
        let default = match kind {
            LeafKind::Required { default: Some(default) } => {
                format!("`{}`", serde_json::to_string(&default).unwrap())
            }
            LeafKind::Required { default: None } | LeafKind::Optional => String::new(),
        };
        let variable = env.map(|name| format!("`{name}`")).unwrap_or_default();
        let bounds = bounds_of(&[name, field.name]).map(|bounds| bounds.to_string()).unwrap_or_default();
        let range = bounds.trim_start_matches("the range is ").trim_start_matches("it must be ");
        let _ =
            writeln!(text, "| `{}` | {default} | {range} | {variable} | {} |", field.name, joined(field.doc));
    }
}

fn joined(doc: &[&str]) -> String {
    doc.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

#[test]
fn reference_matches_the_settings() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let now = reference();
    if std::env::var_os("PINFOLD_BLESS").is_some() {
        std::fs::write(&path, &now).unwrap();
    }

    let written = std::fs::read_to_string(&path).unwrap_or_default();

    assert!(written == now, "docs/configuration.md is out of date; regenerate it with PINFOLD_BLESS=1");
}

#[test]
fn template_is_a_valid_configuration_file() {
    let data = tempfile::tempdir().unwrap();
    let template = crate::config::template();
    std::fs::write(data.path().join(super::FILE), &template).unwrap();

    let loaded = super::load(data.path(), None).unwrap();

    assert!(template.contains("#rate = 1000") && template.contains("[admission]"), "{template}");
    assert!(loaded.provenance.shown().iter().all(|it| it.from != super::Origin::File));
}
