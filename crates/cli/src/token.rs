//! `pinfold token`: who may ask a server, and for what.

use std::process::ExitCode;

use clap::ValueEnum;
use pinfold_api::{NewToken, Role, Token};

use crate::Place;
use crate::documents::{self, word};
use crate::failure::say;
use crate::plane::Plane;
use crate::table::{harmless, lay_out};

#[derive(clap::Subcommand)]
pub(crate) enum Tokens {
    /// Make a token, and print it: it is told only now
    Create {
        /// What it is good for
        #[arg(long, value_enum, default_value = "operator")]
        role: Grade,
        /// Whose it is, or what it is for
        name: String,
    },
    /// List the tokens there are, those that were revoked too
    Ls,
    /// Make tokens worthless, from now on and everywhere
    Revoke {
        /// Their ids, not the tokens themselves
        #[arg(required = true, value_name = "TOKEN")]
        tokens: Vec<String>,
    },
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Grade {
    /// Look
    Viewer,
    /// Make, use and end sandboxes
    Operator,
    /// Say who may do what, and clean up
    Admin,
}

pub(crate) async fn run(place: &Place, asked: &Tokens) -> anyhow::Result<ExitCode> {
    let plane = Plane::open(place).await?;
    match asked {
        Tokens::Create { role, name } => create(&plane, place, *role, name).await?,
        Tokens::Ls => {
            let tokens = plane.tokens().await?;
            show(place, &tokens)?;
        }
        Tokens::Revoke { tokens } => {
            let mut revoked = Vec::new();
            for token in tokens {
                revoked.push(plane.revoke_token(token).await?);
            }
            show(place, &revoked)?;
        }
    }
    plane.close().await?;
    Ok(ExitCode::SUCCESS)
}

async fn create(plane: &Plane, place: &Place, role: Grade, name: &str) -> anyhow::Result<()> {
    let role = match role {
        Grade::Viewer => Role::Viewer,
        Grade::Operator => Role::Operator,
        Grade::Admin => Role::Admin,
    };
    let created = plane.create_token(&NewToken { name: name.to_owned(), role }).await?;
    if place.json {
        return documents::print(&created);
    }
    anstream::println!("{}", created.secret);
    say(&format!("this is {}; it is not told again", created.token.id));
    Ok(())
}

fn show(place: &Place, tokens: &[Token]) -> anyhow::Result<()> {
    if place.json {
        return documents::print(&tokens);
    }
    let mut rows = vec![["ID", "ROLE", "NAME", "CREATED", "REVOKED"].map(str::to_owned).to_vec()];
    rows.extend(tokens.iter().map(|it| {
        let revoked = it.revoked_at.clone().unwrap_or_else(|| "-".to_owned());
        vec![it.id.clone(), word(&it.role), harmless(&it.name), it.created_at.clone(), revoked]
    }));
    anstream::print!("{}", lay_out(&rows));
    Ok(())
}
