//! A webhook receiver that records every message and answers as the test wants.

use pinfold_test_support::until_some;

use crate::http_receiver::HttpReceiver;
pub(super) use crate::http_receiver::{Behaviour, ReceivedMessage};

pub(super) struct Receiver {
    pub(super) url: String,
    http: HttpReceiver,
}

impl Receiver {
    /// Shows these behaviours for the first messages, then answers with success.
    pub(super) async fn start(behaviours: &[Behaviour]) -> Self {
        let http = HttpReceiver::start(behaviours, None).await;
        Self { url: format!("{}/hook", http.address), http }
    }

    pub(super) fn received(&self) -> Vec<ReceivedMessage> {
        self.http.received()
    }

    /// Waits for `count` messages that match.
    pub(super) async fn until(
        &self,
        count: usize,
        is_wanted: impl Fn(&ReceivedMessage) -> bool,
    ) -> Vec<ReceivedMessage> {
        until_some(&format!("{count} messages have arrived"), || async {
            let wanted: Vec<_> = self.received().into_iter().filter(&is_wanted).collect();
            (wanted.len() >= count).then_some(wanted)
        })
        .await
    }
}
