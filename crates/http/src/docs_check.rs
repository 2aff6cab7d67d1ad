//! Checks that the tables in `docs/api.md` match the code. `PINFOLD_BLESS=1` rewrites them.

use std::fmt::Write as _;
use std::path::Path;

use pinfold_api::ErrorCode;
use serde_json::{Value, json};

use super::document;
use super::error_response::status_of;

fn errors() -> String {
    let mut table = "| code | status | meaning |\n|---|---|---|\n".to_owned();
    for code in ErrorCode::ALL {
        let name = json!(code);
        let status = status_of(*code).as_u16();
        writeln!(table, "| `{}` | {status} | {} |", name.as_str().unwrap(), code.meaning()).unwrap();
    }
    table
}

fn requests() -> String {
    let document = serde_json::to_value(document()).unwrap();
    let mut table = "| request | role | what it does |\n|---|---|---|\n".to_owned();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let role = operation["x-required-role"].as_str().unwrap_or("none");
            let said =
                operation["summary"].as_str().or(operation["description"].as_str()).unwrap_or_default();
            let said = said.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
            writeln!(table, "| `{} {path}` | {role} | {said} |", method.to_uppercase()).unwrap();
        }
    }
    table
}

fn with_table(text: &str, name: &str, table: &str) -> String {
    let (begin, end) = (format!("<!-- {name}:begin -->\n"), format!("<!-- {name}:end -->"));
    let (before, rest) = text.split_once(&begin).unwrap();
    let (_, after) = rest.split_once(&end).unwrap();
    format!("{before}{begin}{table}{end}{after}")
}

#[test]
fn the_tables_in_the_api_guide_match_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api.md");
    let written = std::fs::read_to_string(&path).unwrap();

    let now = with_table(&with_table(&written, "errors", &errors()), "requests", &requests());

    if std::env::var_os("PINFOLD_BLESS").is_some() {
        std::fs::write(&path, &now).unwrap();
    } else {
        assert!(written == now, "docs/api.md is out of date; run with PINFOLD_BLESS=1 to update it");
    }
}

#[test]
fn every_error_code_is_listed_once() {
    let schema = serde_json::to_value(<ErrorCode as utoipa::PartialSchema>::schema()).unwrap();
    let known: Vec<&Value> = schema["enum"].as_array().unwrap().iter().collect();

    let listed: Vec<Value> = ErrorCode::ALL.iter().map(|code| json!(code)).collect();

    assert_eq!(listed.iter().collect::<Vec<_>>(), known);
}
