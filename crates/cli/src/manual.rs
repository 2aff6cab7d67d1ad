//! `pinfold completions` and `pinfold man`: the commands' definitions for shells and for `man`.

use std::io;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::Arguments;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The shell that is to complete what is typed
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn completions(options: &Options) -> ExitCode {
    clap_complete::generate(options.shell, &mut Arguments::command(), "pinfold", &mut io::stdout());
    ExitCode::SUCCESS
}

/// One page with every command that people type.
pub(crate) fn man() -> anyhow::Result<ExitCode> {
    let mut program = Arguments::command();
    program.build();
    let mut out = io::stdout();
    clap_mangen::Man::new(program.clone()).render(&mut out)?;
    for command in program.get_subcommands().filter(|command| !command.is_hide_set()) {
        clap_mangen::Man::new(command.clone()).render(&mut out)?;
    }
    Ok(ExitCode::SUCCESS)
}
