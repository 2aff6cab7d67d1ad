//! A webhook receiver that records every message and answers as the test wants.

use std::time::Duration;

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
        let poll = async {
            loop {
                let wanted: Vec<_> = self.received().into_iter().filter(&is_wanted).collect();
                if wanted.len() >= count {
                    return wanted;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(20), poll).await;
        waited.unwrap_or_else(|_| panic!("{count} messages did not arrive: {:?}", self.received()))
    }
}
