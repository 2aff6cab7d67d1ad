//! Runs Schemathesis against a real server: requests that its OpenAPI description allows, and many that it does
//! not.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::builds::{PRODUCT, kept_program};
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
const BEGINS_WITHIN: Duration = Duration::from_secs(30);

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
    let server = Server::begin("schemathesis", &target)?;
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

/// A server with its own data directory. Dropping it stops its sandboxes and the server.
pub(super) struct Server {
    child: Child,
    data: PathBuf,
    pub(super) url: String,
    pub(super) token: String,
}

impl Server {
    /// Its data directory and its log are in `target` and begin with the name of its user.
    pub(super) fn begin(user: &str, target: &Path) -> Result<Self> {
        let data = target.join(format!("{user}-data-{}", std::process::id()));
        fs::create_dir_all(&data).context("could not make a data directory")?;
        let log = target.join(format!("{user}-server.log"));
        let log = fs::File::create(log).context("could not make a log")?;
        let child = Command::new(kept_program("pinfold"))
            .args(["serve", "--listen", "127.0.0.1:0", "--on-exit", "stop", "--log", "warn"])
            .env("PINFOLD_DATA_DIR", &data)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("could not start the server")?;
        let mut server = Self { child, data, url: String::new(), token: String::new() };
        #[expect(clippy::disallowed_methods, reason = "a wait for a process takes real time")]
        let end = Instant::now() + BEGINS_WITHIN;
        while !server.data.join("server.json").exists() {
            #[expect(clippy::disallowed_methods, reason = "as above")]
            if Instant::now() >= end {
                bail!("the server did not begin");
            }
            sleep(Duration::from_millis(20));
        }
        let said =
            fs::read_to_string(server.data.join("server.json")).context("could not find the server")?;
        let address = said.split('"').find(|word| word.starts_with("http://"));
        server.url = address.context("the server does not say where it is")?.to_owned();
        let token = fs::read_to_string(server.data.join("admin.token")).context("there is no token")?;
        server.token = token.trim().to_owned();
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // On SIGTERM it stops its sandboxes first.
        let asked = Command::new("kill").arg(self.child.id().to_string()).status();
        if !asked.is_ok_and(|status| status.success()) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.data);
    }
}
