//! `pinfold completions` and `pinfold man`: shell completions and the manual page, from the command definitions.

use std::process::ExitCode;

use clap::{Command, CommandFactory};
use clap_complete::Shell;

use crate::{Arguments, exit, stdout};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Shell to complete for
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn completions(options: &Options) -> anyhow::Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(options.shell, &mut visible_commands(), "pinfold", &mut text);
    stdout::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The commands without hidden ones, which the program runs itself.
fn visible_commands() -> Command {
    let whole = Arguments::command();
    let shown = whole.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let visible = Command::new("pinfold").version(env!("CARGO_PKG_VERSION")).after_help(exit::CODES);
    let visible = visible.about(whole.get_about().cloned().unwrap_or_default());
    visible.args(whole.get_arguments().cloned()).subcommands(shown)
}

/// Prints one manual page with every visible command.
pub(crate) fn man() -> anyhow::Result<ExitCode> {
    let mut program = visible_commands();
    program.build();
    let mut page = Vec::new();
    clap_mangen::Man::new(program.clone()).render(&mut page)?;
    for command in program.get_subcommands() {
        clap_mangen::Man::new(command.clone()).render(&mut page)?;
    }
    stdout::print(&page)?;
    Ok(ExitCode::SUCCESS)
}
