//! Agent runs: one command in a sandbox of its own, retried where that can help. All state is in the store, so any
//! server gives the same answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinfold_api::{
    self as api, AgentContext, AgentFile, AgentLinks, AgentRequest, ArtifactState, DescribedFile, ErrorCode,
};
use pinfold_engine::{AgentRun, CreateRequest, RunRequest, WaitOutcome};
use pinfold_lifecycle::{
    Command, ExecutionFiles, ExecutionId, ExecutionKind, ExecutionLimits, ExecutionState, FileContent,
    InputFile, Policy, SandboxId, Spec,
};
use pinfold_logs::{Artifact, ArtifactContent, ArtifactError, check_artifact_name};
use pinfold_store::{Row, StoredExecution};

use super::convert::{self, rfc3339};
use super::create::{CreateOptions, check_environment, check_task, limit_overrides};
use super::executions::outcome_view;
use super::{Failure, Service, view};
use crate::artifacts::{Collected, OWN, artifact_name};

/// The path of the script inside the sandbox.
const SCRIPT: &str = "/tmp/.pinfold/script";
const MOST_FILES: usize = 1_000;
const MOST_ARTIFACTS: usize = 100;

/// The ids of an agent run.
#[derive(Debug, Clone, Copy)]
pub struct AgentRunIds {
    pub sandbox: SandboxId,
    pub execution: ExecutionId,
}

impl Service {
    /// Commits the run; the engine carries it out whether or not the caller waits. Without capacity the run is refused at
    /// once, or waits in the queue for the requested time.
    pub async fn run_agent(
        &self,
        request: &AgentRequest,
        options: CreateOptions<'_>,
    ) -> Result<AgentRunIds, Failure> {
        let decided = self.decide_agent(request, options)?;
        let key = self.key_of(options, request)?;
        let decided = CreateRequest { key, queue: options.queue, ..decided };
        let limits = ExecutionLimits::default();
        let run = RunRequest { command: command(&request.context)?, kind: ExecutionKind::Run, limits };
        let begun = self.host.engine.run_agent(decided, run).await;
        let (sandbox, execution) = begun.inspect_err(|error| self.count_refused_run(error))?;
        Ok(AgentRunIds { sandbox, execution })
    }

    /// Waits until the run has ended and its last instance is proven gone, or until the timeout, and returns its
    /// state.
    pub async fn agent_run(&self, run: AgentRunIds, wait_ms: u64) -> Result<api::AgentRun, Failure> {
        let AgentRunIds { sandbox, execution } = run;
        let until = self.now().after_ms(wait_ms);
        let run = match self.host.engine.wait_agent_run(sandbox, execution, until).await? {
            WaitOutcome::Met(run) => run,
            WaitOutcome::DeadlinePassed => self.host.engine.agent_run(sandbox, execution).await?,
        };
        let stored = self.stored_execution(execution).await?;
        self.agent_run_view(&stored, run).await
    }

    /// The run that an execution belongs to.
    pub async fn agent_run_ids(&self, execution: ExecutionId) -> Result<AgentRunIds, Failure> {
        let stored = self.stored_execution(execution).await?;
        Ok(AgentRunIds { sandbox: stored.sandbox, execution })
    }

    pub async fn artifacts(&self, id: ExecutionId) -> Result<Vec<api::Artifact>, Failure> {
        let (named, ended) = match self.host.store.execution(id).await? {
            Some(stored) => {
                (stored.command.execution_files.artifacts.clone(), stored.execution.outcome().is_some())
            }
            // Artifacts outlive records.
            None => (Vec::new(), true),
        };
        let collected = self.host.collection.of(id).await?;
        if named.is_empty() && collected.kept.is_empty() {
            self.stored_execution(id).await?;
        }
        Ok(artifacts(id, &named, ended, collected))
    }

    pub async fn artifact(
        &self,
        id: ExecutionId,
        name: &str,
    ) -> Result<(Artifact, ArtifactContent), Failure> {
        Ok(self.host.collection.artifacts.get(&id.to_string(), name).await?)
    }

    fn decide_agent(
        &self,
        request: &AgentRequest,
        options: CreateOptions<'_>,
    ) -> Result<CreateRequest, Failure> {
        check_task("taskId", &request.task_id)?;
        let (agent_type, profile) = self.config.profiles.get_agent(&request.agent_type).map_err(|error| {
            let known = error.known.clone();
            Failure::bad_input("agentType", error).with("known", known)
        })?;
        let policy = self.config.policy.clone();
        let given = profile.with(&limit_overrides(&request.limits), &policy)?;
        let spec = Spec {
            agent_type: Some(agent_type.to_owned()),
            task_id: Some(request.task_id.clone()),
            limits: given.limits,
            execution: given.execution,
            requested_by: options.requester(),
            ..Spec::default()
        };
        let recovery = Some(self.config.recovery);
        let policy = Policy { idle_ms: given.idle_ms, max_life_ms: given.max_life_ms, recovery, ..policy };
        let (spec, policy) = (Arc::new(spec), Arc::new(policy));
        Ok(CreateRequest { spec, policy, ..CreateRequest::default() })
    }

    async fn agent_run_view(
        &self,
        stored: &StoredExecution,
        run: AgentRun,
    ) -> Result<api::AgentRun, Failure> {
        let (id, sandbox) = (stored.execution.id, stored.sandbox);
        let spec = match self.row(sandbox).await? {
            Row::Readable(row) => Some(row.spec.clone()),
            Row::Unreadable(_) => None,
        };
        let outcome = run.outcome.as_ref().map(outcome_view);
        let output = match &outcome {
            Some(_) => Some(self.transcript(sandbox, id).await?.into_output()),
            None => None,
        };
        let ended_at = match &stored.execution.state {
            ExecutionState::Ended { at, .. } => Some(rfc3339(*at)),
            _ => None,
        };
        let receipt = run.receipt.as_ref().zip(run.cause);
        Ok(api::AgentRun {
            execution_id: id.to_string(),
            sandbox_id: sandbox.to_string(),
            task_id: spec.as_ref().and_then(|spec| spec.task_id.clone()),
            agent_type: spec.as_ref().and_then(|spec| spec.agent_type.clone()),
            state: convert::execution_state(&stored.execution.state),
            exit_code: outcome.as_ref().and_then(|it| it.exit_code),
            cause: outcome.as_ref().map(|it| it.cause),
            detail: outcome.and_then(|it| it.detail),
            asked_at: rfc3339(stored.execution.requested_at),
            started_at: run.attempts.iter().find_map(|attempt| attempt.started_at).map(rfc3339),
            ended_at,
            attempts: run.attempts.iter().map(|attempt| view::attempt(sandbox, attempt)).collect(),
            usage: convert::used(run.used),
            output,
            artifacts: self.artifacts(id).await?,
            receipt: receipt.map(|(receipt, cause)| view::receipt(sandbox, cause, receipt)),
            links: links(sandbox, id),
        })
    }
}

fn links(sandbox: SandboxId, id: ExecutionId) -> AgentLinks {
    let (sandbox, execution) = (convert::sandbox_url(sandbox), convert::execution_url(id));
    AgentLinks {
        own: format!("/api/agents/runs/{id}"),
        output: format!("{execution}/output"),
        logs: format!("{sandbox}/logs"),
        artifacts: format!("{execution}/artifacts"),
        sandbox,
        execution,
    }
}

/// The requested artifacts in their order, then any others.
fn artifacts(id: ExecutionId, named: &[String], ended: bool, collected: Collected) -> Vec<api::Artifact> {
    let Collected { kept, mut reasons } = collected;
    let mut kept: BTreeMap<String, Artifact> = kept.into_iter().map(|it| (it.name.clone(), it)).collect();
    let mut all = Vec::new();
    for path in named {
        let name = artifact_name(path);
        let why = match (ended, reasons.remove(name)) {
            (_, Some(why)) => Some(why),
            (true, None) => Some("it was not collected before its instance was gone".to_owned()),
            (false, None) => None,
        };
        all.push(match kept.remove(name) {
            Some(artifact) => kept_artifact(id, artifact),
            None => missing_artifact(name, why),
        });
    }
    all.extend(kept.into_values().map(|artifact| kept_artifact(id, artifact)));
    all
}

fn kept_artifact(id: ExecutionId, artifact: Artifact) -> api::Artifact {
    let Artifact { name, size, sha256, content_type, created_at } = artifact;
    api::Artifact {
        url: Some(format!("{}/artifacts/{}", convert::execution_url(id), percent_encoded(&name))),
        name,
        state: ArtifactState::Kept,
        size: Some(size),
        sha256: Some(sha256),
        content_type: Some(content_type),
        kept_at: Some(rfc3339(created_at)),
        error: None,
    }
}

fn missing_artifact(name: &str, error: Option<String>) -> api::Artifact {
    let state = if error.is_some() { ArtifactState::Missing } else { ArtifactState::Awaited };
    api::Artifact {
        name: name.to_owned(),
        state,
        size: None,
        sha256: None,
        content_type: None,
        kept_at: None,
        error,
        url: None,
    }
}

/// Percent-encodes a URL path, keeping slashes.
fn percent_encoded(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let escaped = |byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    name.bytes().map(escaped).collect()
}

fn command(context: &AgentContext) -> Result<Command, Failure> {
    check_environment(&context.env).map_err(|failure| within_context(failure, "env"))?;
    let mut execution_files =
        ExecutionFiles { files: files(&context.files)?, artifacts: artifact_paths(context)? };
    let argv = match (&context.command, &context.script) {
        (Some(_), Some(_)) | (None, None) => {
            return Err(Failure::bad_input("context.command", "either `command` or `script` is needed"));
        }
        (Some(argv), None) => argv.clone(),
        (None, Some(script)) => {
            let content = FileContent::Text(script.clone());
            execution_files.files.insert(SCRIPT.into(), InputFile { content, executable: true });
            let by_itself = script.starts_with("#!");
            let shell = (!by_itself).then(|| "/bin/sh".to_owned());
            shell.into_iter().chain([SCRIPT.to_owned()]).collect()
        }
    };
    match argv.first() {
        Some(program) if !program.is_empty() => {}
        Some(_) | None => {
            return Err(Failure::bad_input("context.command", "the program name is empty"));
        }
    }
    if argv.iter().any(|argument| argument.contains('\0')) {
        return Err(Failure::bad_input("context.command", "contains a NUL character"));
    }
    Ok(Command { argv, env: context.env.clone(), execution_files, ..Command::default() })
}

fn within_context(mut failure: Failure, field: &str) -> Failure {
    let field = format!("context.{field}");
    failure.detail.message = format!("context.{}", failure.detail.message);
    failure.with("field", field)
}

fn files(given: &BTreeMap<String, AgentFile>) -> Result<BTreeMap<String, InputFile>, Failure> {
    if given.len() > MOST_FILES {
        return Err(Failure::bad_input("context.files", format!("at most {MOST_FILES} files are allowed")));
    }
    given.iter().map(|(path, file)| Ok((checked(path, "files")?, to_put(path, file)?))).collect()
}

fn to_put(path: &str, file: &AgentFile) -> Result<InputFile, Failure> {
    let invalid = |why: String| Failure::bad_input(&format!("context.files.{path}"), why);
    let (content, executable) = match file {
        AgentFile::Text(text) => (FileContent::Text(text.clone()), false),
        AgentFile::Described(DescribedFile { text: Some(text), base64: None, executable }) => {
            (FileContent::Text(text.clone()), *executable)
        }
        AgentFile::Described(DescribedFile { text: None, base64: Some(base64), executable }) => {
            STANDARD.decode(base64).map_err(|error| invalid(format!("not base64: {error}")))?;
            (FileContent::Base64(base64.clone()), *executable)
        }
        AgentFile::Described(_) => return Err(invalid("either `text` or `base64` is needed".into())),
    };
    Ok(InputFile { content, executable })
}

fn artifact_paths(context: &AgentContext) -> Result<Vec<String>, Failure> {
    if context.artifacts.len() > MOST_ARTIFACTS {
        let why = format!("at most {MOST_ARTIFACTS} artifacts are allowed");
        return Err(Failure::bad_input("context.artifacts", why));
    }
    if context.artifacts.iter().any(|path| artifact_name(path).split('/').next() == Some(OWN)) {
        let why = format!("`{OWN}` is reserved; let the command copy the file elsewhere first");
        return Err(Failure::bad_input("context.artifacts", why));
    }
    context.artifacts.iter().map(|path| checked(path, "artifacts")).collect()
}

/// Refuses paths with `..` and the like.
fn checked(path: &str, field: &str) -> Result<String, Failure> {
    let fits = check_artifact_name(artifact_name(path));
    fits.map_err(|error| Failure::bad_input(&format!("context.{field}"), error))?;
    Ok(path.to_owned())
}

impl From<ArtifactError> for Failure {
    fn from(error: ArtifactError) -> Self {
        match error {
            ArtifactError::NoSuchArtifact { .. } => Self::new(ErrorCode::UnknownArtifact, error.to_string()),
            ArtifactError::Name(error) => Self::bad_input("name", error),
            other => Self::internal(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(text: &str) -> AgentContext {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_script_becomes_an_executable_input_file() {
        let plain = command(&context(r#"{"script": "echo hello"}"#)).unwrap();
        let own = command(&context(r##"{"script": "#!/usr/bin/python3\nprint(1)"}"##)).unwrap();

        assert_eq!(plain.argv, ["/bin/sh", SCRIPT]);
        assert_eq!(own.argv, [SCRIPT]);
        assert!(own.execution_files.files[SCRIPT].executable);
    }

    #[test]
    fn an_invalid_context_is_refused_by_field_name() {
        for (text, field) in [
            ("{}", "context.command"),
            (r#"{"command": []}"#, "context.command"),
            (r#"{"command": ["a"], "script": "b"}"#, "context.command"),
            (r#"{"command": ["a\u0000"]}"#, "context.command"),
            (r#"{"command": ["a"], "env": {"A=": "b"}}"#, "context.env"),
            (r#"{"command": ["a"], "files": {"../x": ""}}"#, "context.files"),
            (r#"{"command": ["a"], "files": {"x": {"base64": "?"}}}"#, "context.files.x"),
            (r#"{"command": ["a"], "files": {"x": {}}}"#, "context.files.x"),
            (r#"{"command": ["a"], "artifacts": ["a/../b"]}"#, "context.artifacts"),
            (r#"{"command": ["a"], "artifacts": [".pinfold"]}"#, "context.artifacts"),
            (r#"{"command": ["a"], "artifacts": ["/.pinfold/x"]}"#, "context.artifacts"),
        ] {
            let failure = command(&context(text)).unwrap_err();
            assert_eq!(failure.detail.details["field"], field, "{text}");
        }
    }

    #[test]
    fn requested_artifacts_are_listed_in_order_with_their_states() {
        let reasons = BTreeMap::from([("b".to_owned(), "not found".to_owned())]);
        let named = ["/b".to_owned(), "c".to_owned()];

        let running = artifacts(ExecutionId(1), &named, false, Collected::default());
        let ended = artifacts(ExecutionId(1), &named, true, Collected { kept: Vec::new(), reasons });

        assert!(running.iter().all(|artifact| artifact.state == ArtifactState::Awaited));
        assert_eq!(ended[0].error.as_deref(), Some("not found"));
        assert_eq!((ended[1].state, ended[1].error.is_some()), (ArtifactState::Missing, true));
    }

    #[test]
    fn artifact_name_is_percent_encoded_in_its_url() {
        assert_eq!(percent_encoded("out/a b%.json"), "out/a%20b%25.json");
    }
}
