//! Looking after sandboxes and what they are made from, and ending them for good.

use hyper::Method;
use pinfold_api::{Comparison, Examination, Image, ImageRemoved, Receipt, StopPending, TerminalSize};

use crate::client::{BYTES, JSON, NOTHING, answered, encoded, read, spelled};
use crate::{Answered, Client, ClientError, Upload};

impl Client {
    /// Looks at one closely.
    pub async fn examine(&self, id: &str) -> Result<Examination, ClientError> {
        read(self.ask(Method::POST, &format!("/api/sandbox/{id}/examine"), NOTHING).await?).await
    }

    /// Repairs the difference between what is recorded and what is there, and waits so long until that is done.
    pub async fn reconcile(&self, wait_s: u64) -> Result<Comparison, ClientError> {
        let path = format!("/api/sandbox/reconcile?wait={wait_s}");
        read(self.ask(Method::POST, &path, NOTHING).await?).await
    }

    /// Gives the word of whoever has this token that a quarantined body is gone.
    pub async fn attest(
        &self,
        id: &str,
        reason: &str,
    ) -> Result<Answered<Receipt, StopPending>, ClientError> {
        let path = format!("/api/sandbox/{id}?wait=0&attest=true&reason={}", encoded(reason));
        answered(self.ask(Method::DELETE, &path, NOTHING).await?).await
    }

    /// Forgets the record of one that is gone, after ending it if it is not.
    pub async fn forget(&self, id: &str, wait_s: u64) -> Result<Answered<Receipt, StopPending>, ClientError> {
        let path = format!("/api/sandbox/{id}?wait={wait_s}&forget=true");
        answered(self.ask(Method::DELETE, &path, NOTHING).await?).await
    }

    pub async fn resize(&self, execution: &str, size: TerminalSize) -> Result<TerminalSize, ClientError> {
        let path = format!("/api/executions/{execution}/resize");
        read(self.ask(Method::POST, &path, Some(&size)).await?).await
    }

    pub async fn images(&self) -> Result<Vec<Image>, ClientError> {
        self.all("/api/images", "").await
    }

    /// From an archive.
    pub async fn import_image(&self, name: &str, archive: Upload) -> Result<Image, ClientError> {
        let path = format!("/api/images?name={}", encoded(name));
        read(self.carry(Method::POST, &path, archive.into_content(), BYTES, JSON).await?).await
    }

    pub async fn remove_image(&self, name: &str) -> Result<ImageRemoved, ClientError> {
        let path = format!("/api/images/{}", spelled(name.as_bytes(), b"-._~/:"));
        read(self.ask(Method::DELETE, &path, NOTHING).await?).await
    }
}
