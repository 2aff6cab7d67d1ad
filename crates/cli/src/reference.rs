//! Generates `docs/cli.md` from the command definitions. A test compares the two;
//! with `PINFOLD_BLESS=1` in the environment it rewrites the file.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, Command, CommandFactory};
use pinfold_lifecycle::profile::PROFILES;

use crate::{Arguments, exit};

const INTRODUCTION: &str = "\
# Commands

Generated from the program's definitions; regenerate it with `PINFOLD_BLESS=1 cargo test -p pinfold-cli reference`.

All commands work without a server, and several can use one data directory at the same time. If a server runs on the
data directory, or `--url` names one, commands send their requests to it and print the same output. Name a sandbox by its
id, by a unique prefix of the id, or by its name. Sizes are MiB or carry a unit (`512m`,
`2g`); times are seconds or carry one (`500ms`, `90s`, `5m`, `1h`, `1d`).
";

fn reference() -> String {
    let mut program = Arguments::command();
    program.build();
    let mut text = INTRODUCTION.to_owned();
    let _ = write!(text, "\n{}\n", exit::CODES);
    text.push_str(
        "\nWith `--json` errors are JSON documents too: `{\"error\": {\"code\": …, \"message\": …}}`.\n",
    );
    text.push_str("\n## Options of every command\n\n");
    let globals: Vec<_> =
        program.get_arguments().filter(|argument| argument.is_global_set()).cloned().collect();
    globals.iter().for_each(|argument| describe(argument, &mut text));
    profiles(&mut text);
    for command in
        program.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help")
    {
        section(command, &mut text);
    }
    text
}

fn profiles(text: &mut String) {
    text.push_str("\n## Profiles\n\n`--profile` takes one of these. An empty cell means no limit.\n\n");
    text.push_str("| profile | memory | CPU time | execution | inactivity | requests | disk | processes | files | output |\n");
    text.push_str("|---|---|---|---|---|---|---|---|---|---|\n");
    for (name, it) in PROFILES {
        let with_unit =
            |value: Option<u64>, unit: &str| value.map(|value| format!("{value}{unit}")).unwrap_or_default();
        let seconds = |ms: Option<u64>| with_unit(ms.map(|ms| ms / 1_000), " s");
        let cells = [
            format!("`{name}`"),
            with_unit(it.limits.memory_mb, " MiB"),
            seconds(it.limits.cpu_time_ms),
            seconds(it.execution.timeout_ms),
            seconds(it.execution.inactivity_ms),
            with_unit(it.limits.network_requests, ""),
            with_unit(it.limits.disk_mb, " MiB"),
            with_unit(it.limits.processes, ""),
            with_unit(it.limits.open_files, ""),
            with_unit(it.limits.output_mb, " MiB"),
        ];
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
}

fn section(command: &Command, text: &mut String) {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let _ = write!(text, "\n## `{name}`\n\n");
    if let Some(about) = command.get_about() {
        let _ = write!(text, "{about}.\n\n");
    }
    let usage = command.clone().render_usage().to_string();
    let _ = write!(text, "```text\n{}\n```\n", usage.trim_start_matches("Usage: "));
    let own: Vec<_> = command.get_arguments().filter(|argument| is_documented(argument)).collect();
    if !own.is_empty() {
        text.push('\n');
        own.into_iter().for_each(|argument| describe(argument, text));
    }
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help")
    {
        section(inner, text);
    }
}

fn is_documented(argument: &Arg) -> bool {
    !argument.is_global_set()
        && !argument.is_hide_set()
        && !["help", "version"].contains(&argument.get_id().as_str())
}

fn describe(argument: &Arg, text: &mut String) {
    let takes_value = argument.get_action().takes_values();
    let value = argument.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    let mut name = match (argument.get_short(), argument.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long}"),
        (None, Some(long)) => format!("--{long}"),
        (Some(short), None) => format!("-{short}"),
        (None, None) => value.clone().unwrap_or_default(),
    };
    if takes_value && !argument.is_positional() {
        let _ = write!(name, " {}", value.unwrap_or_default());
    }
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let _ = write!(text, "- `{name}`: {help}");
    let defaults: Vec<_> = argument.get_default_values().iter().map(|it| it.to_string_lossy()).collect();
    if takes_value && !defaults.is_empty() {
        let _ = write!(text, " (default `{}`)", defaults.join(","));
    }
    if let Some(variable) = argument.get_env() {
        let _ = write!(text, " (environment: `{}`)", variable.to_string_lossy());
    }
    text.push('\n');
}

#[test]
fn reference_matches_the_commands() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let now = reference();
    if std::env::var_os("PINFOLD_BLESS").is_some() {
        std::fs::write(&path, &now).unwrap();
    }

    let written = std::fs::read_to_string(&path).unwrap_or_default();

    assert!(written == now, "docs/cli.md is out of date; regenerate it with PINFOLD_BLESS=1");
}

#[test]
fn command_definitions_are_consistent() {
    Arguments::command().debug_assert();
}
