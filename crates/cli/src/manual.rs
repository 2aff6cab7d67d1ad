//! `pinfold completions` and `pinfold man`: the commands' definitions for shells and for `man`.

use std::process::ExitCode;

use clap::{Command, CommandFactory};
use clap_complete::Shell;

use crate::{Arguments, exit, stdout};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The shell that is to complete what is typed
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn completions(options: &Options) -> anyhow::Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(options.shell, &mut typed(), "pinfold", &mut text);
    stdout::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// What people type, without what the program starts itself with.
fn typed() -> Command {
    let whole = Arguments::command();
    let shown = whole.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let typed = Command::new("pinfold").version(env!("CARGO_PKG_VERSION")).after_help(exit::CODES);
    let typed = typed.about(whole.get_about().cloned().unwrap_or_default());
    typed.args(whole.get_arguments().cloned()).subcommands(shown)
}

/// One page with every command that people type.
pub(crate) fn man() -> anyhow::Result<ExitCode> {
    let mut program = typed();
    program.build();
    let mut page = Vec::new();
    clap_mangen::Man::new(program.clone()).render(&mut page)?;
    for command in program.get_subcommands() {
        clap_mangen::Man::new(command.clone()).render(&mut page)?;
    }
    stdout::print(&page)?;
    Ok(ExitCode::SUCCESS)
}
