//! Operations for administrators: diagnosis, reconciliation, attestation, removal, and images.

use hyper::Method;
use pinfold_api::{ConsistencyReport, Examination, Image, ImageRemoved, Receipt, StopPending, TerminalSize};

use crate::client::{BYTES, JSON, NO_BODY, encode_query_value, percent_encode, read_completion, read_json};
use crate::{Client, ClientError, Completion, Upload};

impl Client {
    /// Diagnoses one sandbox.
    pub async fn examine(&self, id: &str) -> Result<Examination, ClientError> {
        read_json(self.request(Method::POST, &format!("/api/sandbox/{id}/examine"), NO_BODY).await?).await
    }

    /// Repairs differences between records and instances, waiting up to `wait_s` seconds for the repairs.
    pub async fn reconcile(&self, wait_s: u64) -> Result<ConsistencyReport, ClientError> {
        let path = format!("/api/sandbox/reconcile?wait={wait_s}");
        read_json(self.request(Method::POST, &path, NO_BODY).await?).await
    }

    /// Records an attestation by the owner of this token that a quarantined instance is gone.
    pub async fn attest(
        &self,
        id: &str,
        reason: &str,
    ) -> Result<Completion<Receipt, StopPending>, ClientError> {
        let path = format!("/api/sandbox/{id}?wait=0&attest=true&reason={}", encode_query_value(reason));
        read_completion(self.request(Method::DELETE, &path, NO_BODY).await?).await
    }

    /// Deletes the record of a sandbox, stopping the sandbox first if it still runs.
    pub async fn forget(
        &self,
        id: &str,
        wait_s: u64,
    ) -> Result<Completion<Receipt, StopPending>, ClientError> {
        let path = format!("/api/sandbox/{id}?wait={wait_s}&forget=true");
        read_completion(self.request(Method::DELETE, &path, NO_BODY).await?).await
    }

    pub async fn resize(&self, execution: &str, size: TerminalSize) -> Result<TerminalSize, ClientError> {
        let path = format!("/api/executions/{execution}/resize");
        read_json(self.request(Method::POST, &path, Some(&size)).await?).await
    }

    pub async fn images(&self) -> Result<Vec<Image>, ClientError> {
        self.read_all_pages("/api/images", "").await
    }

    /// Imports an image from an archive.
    pub async fn import_image(&self, name: &str, archive: Upload) -> Result<Image, ClientError> {
        let path = format!("/api/images?name={}", encode_query_value(name));
        read_json(self.request_with_content(Method::POST, &path, archive.into_content(), BYTES, JSON).await?)
            .await
    }

    pub async fn remove_image(&self, name: &str) -> Result<ImageRemoved, ClientError> {
        let path = format!("/api/images/{}", percent_encode(name.as_bytes(), b"-._~/:"));
        read_json(self.request(Method::DELETE, &path, NO_BODY).await?).await
    }
}
