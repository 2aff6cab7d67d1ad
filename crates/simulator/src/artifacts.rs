//! The artifact collector of a simulated node. It checks what it reads, and is slow or hangs as often as the provider.

use std::future;
use std::sync::Arc;

use async_trait::async_trait;
use pinfold_engine::{ArtifactCollector, file_path};
use pinfold_lifecycle::{FileContent, Timestamp};
use pinfold_provider::fake::{Call, Fault, FaultPlan};
use pinfold_provider::{Files, InstanceId};
use pinfold_store::StoredExecution;

use crate::checker::Checker;
use crate::gate::Gate;
use crate::provider_faults::ProviderFaults;

pub(crate) struct SimArtifacts {
    pub(crate) gate: Arc<Gate>,
    pub(crate) faults: Arc<ProviderFaults>,
    pub(crate) checker: Arc<Checker>,
}

#[async_trait]
impl ArtifactCollector for SimArtifacts {
    async fn collect(
        &self,
        files: &dyn Files,
        instance: InstanceId,
        stored: &StoredExecution,
        _until: Timestamp,
    ) {
        let plan = self.faults.plan_call(Call::Files);
        self.faults.sleep_ms(plan.before_ms).await;
        for path in &stored.command.execution_files.artifacts {
            self.gate.pass().await;
            let at = file_path(&stored.command, path);
            let content = match files.read(instance, at.as_bytes(), 0, u64::MAX).await {
                Ok(mut content) => content.pieces.next().await.ok().flatten(),
                Err(_) => None,
            };
            let brought = stored.command.execution_files.files.get(path).map(|file| match &file.content {
                FileContent::Text(text) | FileContent::Base64(text) => text.as_bytes(),
            });
            if content.is_some() && content.as_deref() != brought {
                let id = stored.execution.id;
                self.checker.violate(format!("artifact {path} of {id} is not the file that it brought"));
            }
        }
        if plan.fault == Some(Fault::AnswerLost) {
            future::pending::<()>().await;
        }
        self.gate.pass().await;
    }
}
