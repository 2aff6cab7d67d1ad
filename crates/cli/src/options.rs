//! What can be said of a new sandbox, by `run` and `create` alike.

use pinfold_api::{CreateSandbox, LimitsWish};
use pinfold_images::HOST;
use pinfold_lifecycle::profile::Wishes;
use pinfold_lifecycle::{ExecutionLimits, Limits};

use crate::Place;
use crate::failure::{Failure, say};
use crate::host::rules;
use crate::image::images;
use crate::plane::{Plane, Target, target};
use crate::quantities::{cpu_millis, mebibytes, milliseconds, pair};
use crate::queueing::Ticket;
use crate::table::harmless;

const LONGEST_NAME: usize = 128;

#[derive(clap::Args)]
#[command(next_help_heading = "The sandbox")]
pub(crate) struct SandboxOptions {
    /// What it gets unless something else is said: `default`, or the type of an agent
    #[arg(long, value_name = "PROFILE", default_value = "default")]
    profile: String,
    /// What it is made from: `host`, or an image that was imported
    #[arg(long, value_name = "IMAGE", default_value = HOST)]
    image: String,
    /// Memory for everything inside: MiB, or 512m, 2g
    #[arg(long, value_name = "SIZE", value_parser = mebibytes)]
    memory: Option<u64>,
    /// CPU share, in cores: 2, 0.5
    #[arg(long, value_name = "CORES", value_parser = cpu_millis)]
    cpus: Option<u32>,
    /// CPU time of one execution with all its processes: seconds, or 90s, 5m
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    cpu_time: Option<u64>,
    /// End an execution after so long: seconds, or 90s, 5m, 1h
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    timeout: Option<u64>,
    /// End an execution that wrote nothing for so long
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    inactivity_timeout: Option<u64>,
    /// End the sandbox when nothing ran in it for so long
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    idle_timeout: Option<u64>,
    /// End the sandbox after so long, whatever it does
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    max_life: Option<u64>,
    /// Processes and threads inside
    #[arg(long, value_name = "COUNT")]
    pids: Option<u64>,
    /// End what runs after so many steps: executions, pieces of output and requests for files
    #[arg(long, value_name = "COUNT")]
    operations: Option<u64>,
    /// Disk for what is written inside: MiB, or 512m, 2g
    #[arg(long, value_name = "SIZE", value_parser = mebibytes)]
    disk: Option<u64>,
    /// A variable of the environment of everything that runs inside; may be given again
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
    /// The network: only `none` in this version
    #[arg(long, value_name = "none", value_parser = network, default_value = "none")]
    net: Network,
    /// Where commands start inside
    #[arg(long, value_name = "PATH")]
    workdir: Option<String>,
    /// The task it works for
    #[arg(long = "task", value_name = "ID")]
    task: Option<String>,
    /// A name by which it can be found
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// A label by which it can be found; may be given again
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = pair)]
    labels: Vec<(String, String)>,
    /// Where there is no room, wait so long for it in the queue: seconds, or 90s, 5m
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    queue: Option<u64>,
    /// Keep it in an emergency cleanup
    #[arg(long)]
    critical: bool,
}

/// As images spell it: a user, and perhaps a group.
fn is_root(user: &str) -> bool {
    matches!(user.split(':').next(), Some("" | "0" | "root"))
}

/// What a sandbox may reach.
#[derive(Debug, Clone, Copy)]
enum Network {
    Nothing,
}

fn network(given: &str) -> Result<Network, String> {
    if given == "none" {
        return Ok(Network::Nothing);
    }
    if given.starts_with("allow=") {
        return Err("egress is not available in this version; only `none` is".to_owned());
    }
    Err(format!("`{given}` is no network; only `none` is available in this version"))
}

impl SandboxOptions {
    /// What is asked, and of whom. What makes no sense here is refused before anything is made; a server judges by
    /// its own lights.
    pub(crate) async fn ask(&self, place: &Place) -> anyhow::Result<(Plane, CreateSandbox)> {
        let plane = match target(place).await? {
            Target::Server(server) => Plane::Server(server),
            Target::Here => {
                self.check(place)?;
                Plane::here(place).await?
            }
        };
        Ok((plane, self.wish()))
    }

    /// None: it would rather be refused.
    pub(crate) fn queueing(&self) -> Option<Ticket> {
        self.queue.map(Ticket::of)
    }

    fn wish(&self) -> CreateSandbox {
        let Network::Nothing = self.net;
        CreateSandbox {
            agent_type: Some(self.profile.clone()),
            task_id: self.task.clone(),
            name: self.name.clone(),
            image: Some(self.image.clone()),
            labels: self.labels.iter().cloned().collect(),
            env: self.env.iter().cloned().collect(),
            workdir: self.workdir.clone(),
            network: Some("none".to_owned()),
            critical: self.critical,
            limits: LimitsWish {
                memory_mb: self.memory,
                cpu_millis: self.cpus,
                cpu_time_ms: self.cpu_time,
                timeout_ms: self.timeout,
                inactivity_ms: self.inactivity_timeout,
                idle_ms: self.idle_timeout,
                max_life_ms: self.max_life,
                network_requests: None,
                disk_mb: self.disk,
                processes: self.pids,
                output_mb: None,
                operations: self.operations,
            },
        }
    }

    fn wishes(&self) -> Wishes {
        Wishes {
            limits: Limits {
                memory_mb: self.memory,
                cpu_millis: self.cpus,
                cpu_time_ms: self.cpu_time,
                disk_mb: self.disk,
                processes: self.pids,
                operations: self.operations,
                ..Limits::default()
            },
            execution: ExecutionLimits { timeout_ms: self.timeout, inactivity_ms: self.inactivity_timeout },
            idle_ms: self.idle_timeout,
            max_life_ms: self.max_life,
        }
    }

    fn check(&self, place: &Place) -> anyhow::Result<()> {
        let rules = rules(place)?;
        let (_, profile) = rules.profiles.named(&self.profile)?;
        profile.with(&self.wishes(), &rules.policy)?;
        self.check_words()?;
        self.check_image(place)
    }

    fn check_words(&self) -> Result<(), Failure> {
        let bad = |field, why: &str| Err(Failure::BadField { field, why: why.to_owned() });
        match &self.name {
            Some(name) if name.is_empty() => return bad("name", "it is empty"),
            Some(name) if name.len() > LONGEST_NAME => return bad("name", "it is longer than 128 bytes"),
            Some(name) if name.starts_with("sbx_") => {
                return bad("name", "names that begin with `sbx_` look like ids");
            }
            Some(_) | None => {}
        }
        if self.workdir.as_ref().is_some_and(|path| !path.starts_with('/')) {
            return bad("workdir", "it does not begin with `/`");
        }
        Ok(())
    }

    fn check_image(&self, place: &Place) -> anyhow::Result<()> {
        if self.image == HOST {
            return Ok(());
        }
        let found = images(place)?.find(&self.image);
        let image = found.map_err(|_| Failure::NoImage { given: self.image.clone() })?;
        if let Some(user) = image.settings.user.as_ref().filter(|user| !is_root(user)) {
            let (image, user) = (harmless(&self.image), harmless(user));
            say(&format!("`{image}` wants to run as `{user}`; it runs as root of its own sandbox instead"));
        }
        Ok(())
    }
}
