//! Options of a new sandbox, shared by `run` and `create`.

use pinfold_api::{CreateSandbox, LimitsRequest};
use pinfold_images::HOST;
use pinfold_lifecycle::profile::LimitOverrides;
use pinfold_lifecycle::{ExecutionLimits, Limits};
use pinfold_service::check_request;

use crate::GlobalOptions;
use crate::backend::{Backend, BackendError, Target, target};
use crate::environment::EnvironmentOptions;
use crate::failure::{Failure, say};
use crate::host::service_config;
use crate::image::image_store;
use crate::queue_wait::QueueRequest;
use crate::table::escape_control;
use crate::units::{count, cpu_millis, mebibytes, milliseconds, milliseconds_or_off, pair};

#[derive(clap::Args)]
#[command(next_help_heading = "Sandbox options")]
pub(crate) struct SandboxOptions {
    /// Profile of default limits: `default`, or an agent type
    #[arg(long, value_name = "PROFILE", default_value = "default")]
    profile: String,
    /// Image of the root file system: `host`, or an imported image
    #[arg(long, value_name = "IMAGE", default_value = HOST)]
    image: String,
    /// Memory limit of the sandbox: MiB, or 512m, 2g
    #[arg(long, value_name = "SIZE", value_parser = mebibytes, allow_hyphen_values = true)]
    memory: Option<u64>,
    /// CPU limit in cores: 2, 0.5
    #[arg(long, value_name = "CORES", value_parser = cpu_millis, allow_hyphen_values = true)]
    cpus: Option<u32>,
    /// CPU time limit of one execution, over all its processes: seconds, or 90s, 5m
    #[arg(long, value_name = "TIME", value_parser = milliseconds, allow_hyphen_values = true)]
    cpu_time: Option<u64>,
    /// Stop an execution after this time: seconds, or 90s, 5m, 1h
    #[arg(long, value_name = "TIME", value_parser = milliseconds, allow_hyphen_values = true)]
    timeout: Option<u64>,
    /// Stop an execution that wrote nothing for this time; 0 or `off`: never
    #[arg(long, value_name = "TIME", value_parser = milliseconds_or_off, allow_hyphen_values = true)]
    inactivity_timeout: Option<u64>,
    /// Stop the sandbox when nothing ran in it for this time
    #[arg(long, value_name = "TIME", value_parser = milliseconds, allow_hyphen_values = true)]
    idle_timeout: Option<u64>,
    /// Stop the sandbox at this age, whatever it does
    #[arg(long, value_name = "TIME", value_parser = milliseconds, allow_hyphen_values = true)]
    max_life: Option<u64>,
    /// Limit of processes and threads
    #[arg(long, value_name = "COUNT", value_parser = count, allow_hyphen_values = true)]
    pids: Option<u64>,
    /// Limit of operations: executions, output chunks and file requests
    #[arg(long, value_name = "COUNT", value_parser = count, allow_hyphen_values = true)]
    operations: Option<u64>,
    /// Disk limit of written files: MiB, or 512m, 2g
    #[arg(long, value_name = "SIZE", value_parser = mebibytes, allow_hyphen_values = true)]
    disk: Option<u64>,
    #[command(flatten)]
    environment: EnvironmentOptions,
    /// Network access: only `none` in this version
    #[arg(long, value_name = "none", value_parser = network, default_value = "none")]
    net: Network,
    /// Working directory of commands
    #[arg(long, value_name = "PATH")]
    workdir: Option<String>,
    /// Task that the sandbox belongs to
    #[arg(long = "task", value_name = "ID")]
    task: Option<String>,
    /// Name of the sandbox
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Label of the sandbox; may be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = pair)]
    labels: Vec<(String, String)>,
    /// If there is no capacity, wait in the queue for up to this time: seconds, or 90s, 5m
    #[arg(long, value_name = "TIME", value_parser = milliseconds, allow_hyphen_values = true)]
    queue: Option<u64>,
    /// Keep the sandbox in an emergency cleanup
    #[arg(long)]
    critical: bool,
    /// How long its processes may take to end after SIGTERM when it is stopped: seconds, or 500ms, 5s
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    grace: Option<u64>,
}

/// Whether an image's `USER` (`user` or `user:group`) is root.
fn is_root(user: &str) -> bool {
    matches!(user.split(':').next(), Some("" | "0" | "root"))
}

/// Network access of a sandbox.
#[derive(Debug, Clone, Copy)]
enum Network {
    None,
}

fn network(given: &str) -> Result<Network, String> {
    if given == "none" {
        return Ok(Network::None);
    }
    if given.starts_with("allow=") {
        return Err("egress is not available in this version; use `none`".to_owned());
    }
    Err(format!("`{given}` is not a network mode; only `none` is available in this version"))
}

impl SandboxOptions {
    /// Opens the backend and builds the create request. Without a server the options are checked here, before anything is
    /// created; a server checks them itself.
    pub(crate) async fn backend_and_request(
        &self,
        global: &GlobalOptions,
    ) -> anyhow::Result<(Backend, CreateSandbox)> {
        let request = self.create_request()?;
        let backend = match target(global).await? {
            Target::Server(server) => Backend::Server(server),
            Target::Local => {
                self.check(global, &request)?;
                Backend::local(global).await?
            }
        };
        Ok((backend, request))
    }

    /// None: fail at once if there is no capacity.
    pub(crate) fn queue_request(&self) -> Option<QueueRequest> {
        self.queue.map(QueueRequest::of)
    }

    fn create_request(&self) -> Result<CreateSandbox, Failure> {
        let Network::None = self.net;
        Ok(CreateSandbox {
            agent_type: Some(self.profile.clone()),
            task_id: self.task.clone(),
            name: self.name.clone(),
            image: Some(self.image.clone()),
            labels: self.labels.iter().cloned().collect(),
            env: self.environment.read()?,
            workdir: self.workdir.clone(),
            network: Some("none".to_owned()),
            critical: self.critical,
            grace_ms: self.grace,
            limits: LimitsRequest {
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
        })
    }

    fn limit_overrides(&self) -> LimitOverrides {
        LimitOverrides {
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

    fn check(&self, global: &GlobalOptions, request: &CreateSandbox) -> anyhow::Result<()> {
        let service_config = service_config(global)?;
        let (_, profile) = service_config.profiles.get(&self.profile)?;
        profile.with(&self.limit_overrides(), &service_config.policy)?;
        check_request(request).map_err(BackendError::from)?;
        self.check_image(global)
    }

    fn check_image(&self, global: &GlobalOptions) -> anyhow::Result<()> {
        if self.image == HOST {
            return Ok(());
        }
        let found = image_store(global)?.find(&self.image);
        let image = found.map_err(|_| Failure::NoImage { given: self.image.clone() })?;
        if let Some(user) = image.settings.user.as_ref().filter(|user| !is_root(user)) {
            let (image, user) = (escape_control(&self.image), escape_control(user));
            say(&format!(
                "image `{image}` sets the user `{user}`; it runs as root of its own sandbox instead"
            ));
        }
        Ok(())
    }
}
