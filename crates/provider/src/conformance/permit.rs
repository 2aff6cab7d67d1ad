//! Permits that say yes or no, and permits in which something happens first.

use async_trait::async_trait;

use crate::StartPermit;

pub(super) struct Granted;

/// Does something when it is asked, and says what that comes to.
pub(super) struct Asks<F>(pub(super) F);

#[async_trait]
impl StartPermit for Granted {
    async fn still_wanted(&self) -> bool {
        true
    }
}

#[async_trait]
impl<F, A> StartPermit for Asks<F>
where
    F: Fn() -> A + Send + Sync,
    A: Future<Output = bool> + Send,
{
    async fn still_wanted(&self) -> bool {
        (self.0)().await
    }
}
