//! Artifact collection: copies an execution's files to the artifact store under its id, and records why a file is
//! missing.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{once, unfold};
use futures_util::{Stream, StreamExt};
use pinfold_engine::{ArtifactCollector, Clock, file_path};
use pinfold_lifecycle::{ExecutionId, Timestamp};
use pinfold_logs::{Artifact, ArtifactError, Artifacts};
use pinfold_provider::{ContentStream, Files, InstanceId};
use pinfold_store::StoredExecution;

/// The reserved directory beside the artifacts. No artifact has this name.
pub(crate) const OWN: &str = ".pinfold";
/// The file with the reasons for missing artifacts.
const REASONS: &str = ".pinfold/not-kept.json";
/// The maximum size of that file.
const REASONS_BYTES: usize = 1 << 20;

#[derive(Clone)]
pub(crate) struct Collection {
    pub(crate) artifacts: Artifacts,
    pub(crate) clock: Arc<dyn Clock>,
}

/// The collected artifacts of one execution, and why the others are missing.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) kept: Vec<Artifact>,
    pub(crate) reasons: BTreeMap<String, String>,
}

#[async_trait]
impl ArtifactCollector for Collection {
    /// Stores each artifact whole or not at all, until the time is up, and then the reasons for missing ones.
    async fn collect(
        &self,
        files: &dyn Files,
        instance: InstanceId,
        stored: &StoredExecution,
        until: Timestamp,
    ) {
        let now = self.clock.now();
        let run = stored.execution.id.to_string();
        let mut reasons = BTreeMap::new();
        for path in &stored.command.execution_files.artifacts {
            let name = artifact_name(path);
            let path = file_path(&stored.command, path);
            let kept = tokio::select! {
                biased;
                kept = self.keep(files, instance, &run, name, &path, now) => kept,
                () = self.clock.sleep_until(until) => Err("no time was left to collect it".into()),
            };
            if let Err(why) = kept {
                reasons.insert(name.to_owned(), why);
            }
        }
        if let Err(error) = self.write_reasons(&run, &reasons, now).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(execution_id = run, error, "could not store why some artifacts are missing");
        }
    }
}

impl Collection {
    async fn keep(
        &self,
        files: &dyn Files,
        instance: InstanceId,
        run: &str,
        name: &str,
        path: &str,
        now: Timestamp,
    ) -> Result<(), String> {
        let content =
            files.read(instance, path.as_bytes(), 0, u64::MAX).await.map_err(|error| error.to_string())?;
        let kept = self.artifacts.put(run, name, content_type(name), stream(content.pieces), now).await;
        kept.map(drop).map_err(|error| reason_text(&error))
    }

    async fn write_reasons(
        &self,
        run: &str,
        reasons: &BTreeMap<String, String>,
        now: Timestamp,
    ) -> Result<(), ArtifactError> {
        // An earlier collection may have left reasons.
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
        let has_reasons = kept.iter().any(|artifact| artifact.name == REASONS);
        kept.retain(|artifact| artifact.name != REASONS);
        let reasons = if has_reasons { self.collected_reasons(&run).await? } else { BTreeMap::new() };
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

/// The path without the leading slash.
pub(crate) fn artifact_name(path: &str) -> &str {
    path.trim_start_matches('/')
}

/// Only content types that a browser does not execute.
fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("json") => "application/json",
        Some("txt" | "log" | "md" | "csv" | "diff" | "patch") => "text/plain; charset=utf-8",
        Some(_) | None => "application/octet-stream",
    }
}

fn stream(pieces: Box<dyn ContentStream>) -> impl Stream<Item = io::Result<Bytes>> + Send {
    unfold(Some(pieces), |pieces| async move {
        let mut pieces = pieces?;
        match pieces.next().await {
            Ok(Some(piece)) => Some((Ok(Bytes::from(piece)), Some(pieces))),
            Ok(None) => None,
            Err(error) => Some((Err(io::Error::other(error)), None)),
        }
    })
}

fn reason_text(error: &ArtifactError) -> String {
    match error {
        ArtifactError::Content { source } => source.to_string(),
        other => other.to_string(),
    }
}
