//! `pinfold token`: creates, lists and revokes access tokens of a server.

use std::process::ExitCode;

use clap::ValueEnum;
use pinfold_api::{NewToken, Role, Token};

use crate::GlobalOptions;
use crate::backend::Backend;
use crate::failure::say;
use crate::json_output::{self, wire_name};
use crate::table::{escape_control, format_table};

#[derive(clap::Subcommand)]
pub(crate) enum Tokens {
    /// Create a token and print it; it is shown only once
    Create {
        /// Role of the token
        #[arg(long, value_enum, default_value = "operator")]
        role: RoleArgument,
        /// Name of the token: its owner or purpose
        name: String,
    },
    /// List tokens, including revoked ones
    Ls,
    /// Revoke tokens
    Revoke {
        /// Ids of the tokens, not the tokens themselves
        #[arg(required = true, value_name = "TOKEN")]
        tokens: Vec<String>,
    },
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum RoleArgument {
    /// Read only
    Viewer,
    /// Create, use and stop sandboxes
    Operator,
    /// Manage tokens and run cleanup
    Admin,
}

pub(crate) async fn run(global: &GlobalOptions, command: &Tokens) -> anyhow::Result<ExitCode> {
    let backend = Backend::open(global).await?;
    match command {
        Tokens::Create { role, name } => create(&backend, global, *role, name).await?,
        Tokens::Ls => {
            let tokens = backend.tokens().await?;
            show(global, &tokens)?;
        }
        Tokens::Revoke { tokens } => {
            let mut revoked = Vec::new();
            for token in tokens {
                revoked.push(backend.revoke_token(token).await?);
            }
            show(global, &revoked)?;
        }
    }
    backend.close().await?;
    Ok(ExitCode::SUCCESS)
}

async fn create(
    backend: &Backend,
    global: &GlobalOptions,
    role: RoleArgument,
    name: &str,
) -> anyhow::Result<()> {
    let role = match role {
        RoleArgument::Viewer => Role::Viewer,
        RoleArgument::Operator => Role::Operator,
        RoleArgument::Admin => Role::Admin,
    };
    let created = backend.create_token(&NewToken { name: name.to_owned(), role }).await?;
    if global.json {
        return json_output::print(&created);
    }
    anstream::println!("{}", created.secret);
    say(&format!("this is {}; it is not shown again", created.token.id));
    Ok(())
}

fn show(global: &GlobalOptions, tokens: &[Token]) -> anyhow::Result<()> {
    if global.json {
        return json_output::print(&tokens);
    }
    let mut rows = vec![["ID", "ROLE", "NAME", "CREATED", "REVOKED"].map(str::to_owned).to_vec()];
    rows.extend(tokens.iter().map(|it| {
        let revoked = it.revoked_at.clone().unwrap_or_else(|| "-".to_owned());
        vec![it.id.clone(), wire_name(&it.role), escape_control(&it.name), it.created_at.clone(), revoked]
    }));
    anstream::print!("{}", format_table(&rows));
    Ok(())
}
