//! Files that a command leaves in its body, kept under the id of its execution. What could not be kept is written
//! down beside them, with the reason.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{once, unfold};
use futures_util::{Stream, StreamExt};
use pinfold_lifecycle::{ExecutionId, Timestamp};
use pinfold_logs::{Artifact, ArtifactError, Artifacts};
use pinfold_provider::{Files, InstanceId, Pieces};
use pinfold_store::StoredExecution;

/// Where paths begin that do not begin at the root, unless the command starts elsewhere.
pub(crate) const WORK: &str = "/workspace";
/// Beside the artifacts, for what Pinfold itself has to say about them: no artifact is called so.
pub(crate) const OWN: &str = ".pinfold";
/// Why the others are not there.
const REASONS: &str = ".pinfold/not-kept.json";
/// Of the reasons of one run.
const REASONS_BYTES: usize = 1 << 20;

#[derive(Clone)]
pub(crate) struct Collection {
    pub(crate) artifacts: Artifacts,
}

/// What there is of a run.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) kept: Vec<Artifact>,
    pub(crate) reasons: BTreeMap<String, String>,
}

impl Collection {
    /// Keeps what there is, each whole or not at all, until the time is over. Asked again, it replaces what was kept.
    pub(crate) async fn collect(
        &self,
        files: &dyn Files,
        body: InstanceId,
        stored: &StoredExecution,
        within: Duration,
        now: Timestamp,
    ) {
        let deadline = tokio::time::Instant::now() + within;
        let run = stored.execution.id.to_string();
        let mut reasons = BTreeMap::new();
        for path in &stored.command.luggage.artifacts {
            let name = artifact_name(path);
            let path = crate::attended::place(&stored.command, path);
            let kept =
                tokio::time::timeout_at(deadline, self.keep(files, body, &run, name, &path, now)).await;
            if let Err(why) = kept.unwrap_or_else(|_| Err("there was no time left to collect it".into())) {
                reasons.insert(name.to_owned(), why);
            }
        }
        if let Err(error) = self.write_reasons(&run, &reasons, now).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(execution_id = run, error, "why some artifacts are missing is not kept");
        }
    }

    async fn keep(
        &self,
        files: &dyn Files,
        body: InstanceId,
        run: &str,
        name: &str,
        path: &str,
        now: Timestamp,
    ) -> Result<(), String> {
        let content =
            files.read(body, path.as_bytes(), 0, u64::MAX).await.map_err(|error| error.to_string())?;
        let kept = self.artifacts.put(run, name, content_type(name), stream(content.pieces), now).await;
        kept.map(drop).map_err(|error| told(&error))
    }

    async fn write_reasons(
        &self,
        run: &str,
        reasons: &BTreeMap<String, String>,
        now: Timestamp,
    ) -> Result<(), ArtifactError> {
        // An earlier try to collect may have left some.
        if reasons.is_empty() && self.collected_reasons(run).await?.is_empty() {
            return Ok(());
        }
        let text = serde_json::to_vec(reasons).unwrap_or_default();
        let content = once(async move { Ok(Bytes::from(text)) });
        self.artifacts.put(run, REASONS, "application/json", content, now).await.map(drop)
    }

    pub(crate) async fn of(&self, execution: ExecutionId) -> Result<Collected, ArtifactError> {
        let run = execution.to_string();
        let mut kept = self.artifacts.list(&run).await?;
        let told = kept.iter().any(|artifact| artifact.name == REASONS);
        kept.retain(|artifact| artifact.name != REASONS);
        let reasons = if told { self.collected_reasons(&run).await? } else { BTreeMap::new() };
        Ok(Collected { kept, reasons })
    }

    async fn collected_reasons(&self, run: &str) -> Result<BTreeMap<String, String>, ArtifactError> {
        let mut content = match self.artifacts.get(run, REASONS).await {
            Err(ArtifactError::NoSuchArtifact { .. }) => return Ok(BTreeMap::new()),
            other => other?.1,
        };
        let mut text = Vec::new();
        while let Some(part) = content.next().await {
            text.extend(part.map_err(|source| ArtifactError::Content { source })?);
            if text.len() > REASONS_BYTES {
                break;
            }
        }
        serde_json::from_slice(&text)
            .map_err(|source| ArtifactError::Unreadable { run: run.to_owned(), source })
    }
}

/// The path without the slash of the root.
pub(crate) fn artifact_name(path: &str) -> &str {
    path.trim_start_matches('/')
}

/// Nothing that a browser would run.
fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("json") => "application/json",
        Some("txt" | "log" | "md" | "csv" | "diff" | "patch") => "text/plain; charset=utf-8",
        Some(_) | None => "application/octet-stream",
    }
}

fn stream(pieces: Box<dyn Pieces>) -> impl Stream<Item = io::Result<Bytes>> + Send {
    unfold(Some(pieces), |pieces| async move {
        let mut pieces = pieces?;
        match pieces.next().await {
            Ok(Some(piece)) => Some((Ok(Bytes::from(piece)), Some(pieces))),
            Ok(None) => None,
            Err(error) => Some((Err(io::Error::other(error)), None)),
        }
    })
}

fn told(error: &ArtifactError) -> String {
    match error {
        ArtifactError::Content { source } => source.to_string(),
        other => other.to_string(),
    }
}
