//! Runs Schemathesis against a real server: requests that its OpenAPI description allows, and many that it does
//! not.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::server::Server;
use crate::builds::PRODUCT;
use crate::cargo;

/// The version that the hooks are written for.
const SCHEMATHESIS: &str = "schemathesis==4.32.5";
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,negative_data_rejection,\
                      ignored_auth,unsupported_method,missing_required_header";
const SEED: &str = "7463";
/// Examples per operation, in a run of all tests.
const EXAMPLES: u32 = 25;
/// Long, since other stages run beside it: a run that reaches this limit has tried fewer cases, and does not fail.
const MOST_SECONDS: u32 = 600;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many examples to try of each operation
    #[arg(long, default_value_t = EXAMPLES)]
    examples: u32,
    /// Start no more examples after this many seconds
    #[arg(long, default_value_t = MOST_SECONDS)]
    seconds: u32,
}

/// As a stage of the test run.
pub(super) fn run() -> Result<bool> {
    test(&Options { examples: EXAMPLES, seconds: MOST_SECONDS })
}

/// Runs only this stage.
pub(crate) fn run_with(options: &Options) -> Result<bool> {
    Ok(PRODUCT.make()? && test(options)?)
}

fn test(options: &Options) -> Result<bool> {
    let target = cargo::repository_root().join("target");
    let schemathesis = install(&target.join("schemathesis"))?;
    let server = Server::start("schemathesis", &target)?;
    let status = Command::new(schemathesis)
        .arg("run")
        .arg(format!("{}/openapi.json", server.url))
        .args(["--header", &format!("Authorization: Bearer {}", server.token)])
        .args(["--checks", CHECKS, "--seed", SEED, "--max-examples", &options.examples.to_string()])
        .args(["--max-time", &options.seconds.to_string(), "--request-timeout", "60", "--workers", "1"])
        .args(["--phases", "examples,coverage,fuzzing", "--generation-with-security-parameters", "false"])
        .args(["--generation-database", "none", "--no-color", "--warnings", "off", "--continue-on-failure"])
        .env("SCHEMATHESIS_HOOKS", "api_hooks")
        .env("PYTHONPATH", cargo::repository_root().join("xtask/src/test"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PINFOLD_URL", &server.url)
        .env("PINFOLD_TOKEN", &server.token)
        .current_dir(&target)
        .status()
        .context("could not run schemathesis")?;
    server.end()?;
    Ok(status.success())
}

/// Installs it once, into its own virtual environment.
fn install(place: &Path) -> Result<PathBuf> {
    let program = place.join("bin/schemathesis");
    let note = place.join("installed");
    if fs::read_to_string(&note).is_ok_and(|installed| installed == SCHEMATHESIS) {
        return Ok(program);
    }
    succeed(Command::new("python3").args(["-m", "venv"]).arg(place))?;
    succeed(Command::new(place.join("bin/pip")).args(["install", "--quiet", SCHEMATHESIS]))?;
    fs::write(&note, SCHEMATHESIS).context("could not note what is installed")?;
    Ok(program)
}

fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("could not run {command:?}"))?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}
