//! Runs of agents: one command in a sandbox of its own, tried again where that can help, and all that is known of it
//! afterwards. Nothing of it is in this process's memory, so any server tells the same.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinfold_api::{
    self as api, AgentContext, AgentFile, AgentLinks, AgentRequest, ArtifactState, DescribedFile, ErrorCode,
};
use pinfold_engine::{AgentRun, CreateAsk, Ids, RandomIds, RunAsk, Waited};
use pinfold_lifecycle::profile::Wishes;
use pinfold_lifecycle::{
    Command, ExecutionId, ExecutionKind, ExecutionLimits, ExecutionState, FileContent, FileToPut, Luggage,
    PlaceId, Policy, SandboxId, Spec,
};
use pinfold_logs::{Artifact, ArtifactContent, ArtifactError, check_name};
use pinfold_store::{Row, Store, StoredExecution};

use super::create::{Asking, check_environment, check_task};
use super::executions::told;
use super::words::{self, moment};
use super::{Failure, Service, view};
use crate::collecting::{Collected, OWN, artifact_name};

/// Where a script is put.
const SCRIPT: &str = "/tmp/.pinfold/script";
const MOST_FILES: usize = 1_000;
const MOST_ARTIFACTS: usize = 100;
/// How long a run waits for room, where its caller waits for it and does not say otherwise.
const ROOM_MS: u64 = 30_000;

/// A run that was asked for.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    pub sandbox: SandboxId,
    pub execution: ExecutionId,
}

impl Service {
    /// Writes the wish down. It goes on by itself from there, whoever waits. Where there is no room it waits in the
    /// queue, as long as it was told to or as its caller would.
    pub async fn run_agent(
        &self,
        request: &AgentRequest,
        asking: Asking<'_>,
        wait_ms: u64,
    ) -> Result<Run, Failure> {
        let (spec, policy) = self.agent(request)?;
        let spec = Spec { asked_by: asking.asker(), ..spec };
        let key = self.key_of(asking, request)?;
        let room_ms = wait_ms.min(ROOM_MS);
        let patient = || self.queue_for(PlaceId(RandomIds.fresh(self.now())), room_ms);
        let queue = asking.queue.or_else(|| (room_ms > 0).then(patient));
        let ask = CreateAsk { spec, policy, key, queue };
        let limits = ExecutionLimits::default();
        let run = RunAsk { command: command(&request.context)?, kind: ExecutionKind::Run, limits };
        let begun = self.host.engine.run_agent(ask, run).await;
        let (sandbox, execution) = begun.inspect_err(|error| self.note_refused_run(error))?;
        Ok(Run { sandbox, execution })
    }

    /// Waits so long until it has ended and its last body is proven gone, and tells what there is.
    pub async fn agent_run(&self, run: Run, wait_ms: u64) -> Result<api::AgentRun, Failure> {
        let Run { sandbox, execution } = run;
        let until = self.now().after_ms(wait_ms);
        let known = match self.host.engine.wait_agent_run(sandbox, execution, until).await? {
            Waited::Met(known) => known,
            Waited::DeadlinePassed => self.host.engine.agent_run(sandbox, execution).await?,
        };
        let stored = self.stored_execution(execution).await?;
        self.told_run(&stored, known).await
    }

    /// The run of an execution that is known by its id.
    pub async fn run_of(&self, execution: ExecutionId) -> Result<Run, Failure> {
        let stored = self.stored_execution(execution).await?;
        Ok(Run { sandbox: stored.sandbox, execution })
    }

    pub async fn artifacts(&self, id: ExecutionId) -> Result<Vec<api::Artifact>, Failure> {
        let (named, ended) = match self.host.store.execution(id).await? {
            Some(stored) => (stored.command.luggage.artifacts.clone(), stored.execution.outcome().is_some()),
            // Artifacts are kept longer than records.
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

    fn agent(&self, request: &AgentRequest) -> Result<(Spec, Policy), Failure> {
        check_task("taskId", &request.task_id)?;
        let (agent_type, profile) = self.rules.profiles.of_agent(&request.agent_type).map_err(|error| {
            let known = error.known.clone();
            Failure::bad_input("agentType", error).with("known", known)
        })?;
        let policy = self.rules.policy.clone();
        let given = profile.with(&Wishes::default(), &policy)?;
        let spec = Spec {
            agent_type: Some(agent_type.to_owned()),
            task_id: Some(request.task_id.clone()),
            limits: given.limits,
            execution: given.execution,
            ..Spec::default()
        };
        Ok((spec, Policy { idle_ms: given.idle_ms, max_life_ms: given.max_life_ms, ..policy }))
    }

    async fn told_run(&self, stored: &StoredExecution, run: AgentRun) -> Result<api::AgentRun, Failure> {
        let (id, sandbox) = (stored.execution.id, stored.sandbox);
        let spec = match self.row(sandbox).await? {
            Row::Readable(row) => Some(row.spec.clone()),
            Row::Unreadable(_) => None,
        };
        let outcome = run.outcome.as_ref().map(told);
        let output = match &outcome {
            Some(_) => Some(self.transcript(sandbox, id).await?.into_output()),
            None => None,
        };
        let ended_at = match &stored.execution.state {
            ExecutionState::Ended { at, .. } => Some(moment(*at)),
            _ => None,
        };
        let receipt = run.receipt.as_ref().zip(run.cause);
        Ok(api::AgentRun {
            execution_id: id.to_string(),
            sandbox_id: sandbox.to_string(),
            task_id: spec.as_ref().and_then(|spec| spec.task_id.clone()),
            agent_type: spec.as_ref().and_then(|spec| spec.agent_type.clone()),
            state: words::execution_state(&stored.execution.state),
            exit_code: outcome.as_ref().and_then(|it| it.exit_code),
            cause: outcome.as_ref().map(|it| it.cause),
            detail: outcome.and_then(|it| it.detail),
            asked_at: moment(stored.execution.asked_at),
            started_at: run.attempts.iter().find_map(|attempt| attempt.started_at).map(moment),
            ended_at,
            attempts: run.attempts.iter().map(|attempt| view::attempt(sandbox, attempt)).collect(),
            usage: words::used(run.used),
            output,
            artifacts: self.artifacts(id).await?,
            receipt: receipt.map(|(receipt, cause)| view::receipt(sandbox, cause, receipt)),
            links: links(sandbox, id),
        })
    }
}

fn links(sandbox: SandboxId, id: ExecutionId) -> AgentLinks {
    let (sandbox, execution) = (words::url_of_sandbox(sandbox), words::url_of_execution(id));
    AgentLinks {
        own: format!("/api/agents/runs/{id}"),
        output: format!("{execution}/output"),
        logs: format!("{sandbox}/logs"),
        artifacts: format!("{execution}/artifacts"),
        sandbox,
        execution,
    }
}

/// What was named, in that order, and then whatever else there is.
fn artifacts(id: ExecutionId, named: &[String], ended: bool, collected: Collected) -> Vec<api::Artifact> {
    let Collected { kept, mut reasons } = collected;
    let mut kept: BTreeMap<String, Artifact> = kept.into_iter().map(|it| (it.name.clone(), it)).collect();
    let mut all = Vec::new();
    for path in named {
        let name = artifact_name(path);
        let why = match (ended, reasons.remove(name)) {
            (_, Some(why)) => Some(why),
            (true, None) => Some("it was not collected before its body was gone".to_owned()),
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
        url: Some(format!("{}/artifacts/{}", words::url_of_execution(id), in_address(&name))),
        name,
        state: ArtifactState::Kept,
        size: Some(size),
        sha256: Some(sha256),
        content_type: Some(content_type),
        kept_at: Some(moment(created_at)),
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

/// As a part of an address, slashes and all.
fn in_address(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let escaped = |byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    name.bytes().map(escaped).collect()
}

fn command(context: &AgentContext) -> Result<Command, Failure> {
    check_environment(&context.env).map_err(|failure| within_context(failure, "env"))?;
    let mut luggage = Luggage { files: files(&context.files)?, artifacts: artifact_paths(context)? };
    let argv = match (&context.command, &context.script) {
        (Some(_), Some(_)) | (None, None) => {
            return Err(Failure::bad_input("context.command", "either `command` or `script` is needed"));
        }
        (Some(argv), None) => argv.clone(),
        (None, Some(script)) => {
            let content = FileContent::Text(script.clone());
            luggage.files.insert(SCRIPT.into(), FileToPut { content, executable: true });
            let by_itself = script.starts_with("#!");
            let shell = (!by_itself).then(|| "/bin/sh".to_owned());
            shell.into_iter().chain([SCRIPT.to_owned()]).collect()
        }
    };
    match argv.first() {
        Some(program) if !program.is_empty() => {}
        Some(_) | None => {
            return Err(Failure::bad_input("context.command", "the name of the program is empty"));
        }
    }
    if argv.iter().any(|argument| argument.contains('\0')) {
        return Err(Failure::bad_input("context.command", "it contains a NUL character"));
    }
    Ok(Command { argv, env: context.env.clone(), luggage, ..Command::default() })
}

fn within_context(mut failure: Failure, field: &str) -> Failure {
    let field = format!("context.{field}");
    failure.detail.message = format!("context.{}", failure.detail.message);
    failure.with("field", field)
}

fn files(given: &BTreeMap<String, AgentFile>) -> Result<BTreeMap<String, FileToPut>, Failure> {
    if given.len() > MOST_FILES {
        return Err(Failure::bad_input("context.files", format!("there may be {MOST_FILES} at the most")));
    }
    given.iter().map(|(path, file)| Ok((checked(path, "files")?, to_put(path, file)?))).collect()
}

fn to_put(path: &str, file: &AgentFile) -> Result<FileToPut, Failure> {
    let refused = |why: String| Failure::bad_input(&format!("context.files.{path}"), why);
    let (content, executable) = match file {
        AgentFile::Text(text) => (FileContent::Text(text.clone()), false),
        AgentFile::Described(DescribedFile { text: Some(text), base64: None, executable }) => {
            (FileContent::Text(text.clone()), *executable)
        }
        AgentFile::Described(DescribedFile { text: None, base64: Some(base64), executable }) => {
            STANDARD.decode(base64).map_err(|error| refused(format!("it is not base64: {error}")))?;
            (FileContent::Base64(base64.clone()), *executable)
        }
        AgentFile::Described(_) => return Err(refused("either `text` or `base64` is needed".into())),
    };
    Ok(FileToPut { content, executable })
}

fn artifact_paths(context: &AgentContext) -> Result<Vec<String>, Failure> {
    if context.artifacts.len() > MOST_ARTIFACTS {
        let why = format!("there may be {MOST_ARTIFACTS} at the most");
        return Err(Failure::bad_input("context.artifacts", why));
    }
    if context.artifacts.iter().any(|path| artifact_name(path).split('/').next() == Some(OWN)) {
        let why = format!("what is in `{OWN}` is Pinfold's own; let the command copy it elsewhere first");
        return Err(Failure::bad_input("context.artifacts", why));
    }
    context.artifacts.iter().map(|path| checked(path, "artifacts")).collect()
}

/// No path with tricks in it.
fn checked(path: &str, field: &str) -> Result<String, Failure> {
    let fits = check_name(artifact_name(path));
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
    fn a_script_is_a_file_that_is_put_there_first() {
        let plain = command(&context(r#"{"script": "echo hello"}"#)).unwrap();
        let own = command(&context(r##"{"script": "#!/usr/bin/python3\nprint(1)"}"##)).unwrap();

        assert_eq!(plain.argv, ["/bin/sh", SCRIPT]);
        assert_eq!(own.argv, [SCRIPT]);
        assert!(own.luggage.files[SCRIPT].executable);
    }

    #[test]
    fn what_cannot_be_run_is_refused_by_its_field() {
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
    fn what_was_named_is_told_in_its_order_with_what_has_become_of_it() {
        let reasons = BTreeMap::from([("b".to_owned(), "not found".to_owned())]);
        let named = ["/b".to_owned(), "c".to_owned()];

        let running = artifacts(ExecutionId(1), &named, false, Collected::default());
        let ended = artifacts(ExecutionId(1), &named, true, Collected { kept: Vec::new(), reasons });

        assert!(running.iter().all(|artifact| artifact.state == ArtifactState::Awaited));
        assert_eq!(ended[0].error.as_deref(), Some("not found"));
        assert_eq!((ended[1].state, ended[1].error.is_some()), (ArtifactState::Missing, true));
    }

    #[test]
    fn a_name_stands_in_an_address_as_it_is_read_back() {
        assert_eq!(in_address("out/a b%.json"), "out/a%20b%25.json");
    }
}
