//! Start permits of the suite.

use async_trait::async_trait;

use crate::StartPermit;

pub(super) struct Granted;

/// Runs a function and answers with its result.
pub(super) struct CheckWith<F>(pub(super) F);

#[async_trait]
impl StartPermit for Granted {
    async fn still_wanted(&self) -> bool {
        true
    }
}

#[async_trait]
impl<F, A> StartPermit for CheckWith<F>
where
    F: Fn() -> A + Send + Sync,
    A: Future<Output = bool> + Send,
{
    async fn still_wanted(&self) -> bool {
        (self.0)().await
    }
}
