//! A stream of events, as it arrives.

use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::Incoming;
use pinfold_api::{EXECUTION_ID, OutputEvent, SANDBOX_ID};

use crate::ClientError;

pub struct Events {
    body: Incoming,
    arrived: Vec<u8>,
    execution: Option<String>,
    sandbox: Option<String>,
}

impl Events {
    pub(crate) fn begin(response: Response<Incoming>) -> Result<Self, ClientError> {
        let header = |name| {
            let said = response.headers().get(name).map(hyper::header::HeaderValue::to_str).transpose();
            let said = said.map_err(|error| ClientError::Misunderstood(error.into()))?;
            Ok(said.map(str::to_owned))
        };
        let (execution, sandbox) = (header(EXECUTION_ID)?, header(SANDBOX_ID)?);
        Ok(Self { body: response.into_body(), arrived: Vec::new(), execution, sandbox })
    }

    /// The execution that was asked for with this stream.
    #[must_use]
    pub fn execution(&self) -> Option<&str> {
        self.execution.as_deref()
    }

    /// The sandbox that was made for it.
    #[must_use]
    pub fn sandbox(&self) -> Option<&str> {
        self.sandbox.as_deref()
    }

    /// None at the end of the stream, which is the end of the execution only after [`OutputEvent::Exit`].
    pub async fn next(&mut self) -> Result<Option<OutputEvent>, ClientError> {
        loop {
            while let Some(block) = take_block(&mut self.arrived) {
                if let Some(data) = data_of(&block) {
                    let event = serde_json::from_str(&data);
                    return event.map(Some).map_err(|error| ClientError::Misunderstood(error.into()));
                }
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(ClientError::BrokeOff(error.into())),
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        self.arrived.extend(bytes);
                    }
                }
            }
        }
    }
}

/// Up to the empty line that ends it.
fn take_block(arrived: &mut Vec<u8>) -> Option<String> {
    let end = arrived.windows(2).position(|pair| pair == b"\n\n")?;
    let block: Vec<u8> = arrived.drain(..end + 2).collect();
    Some(String::from_utf8_lossy(&block).into_owned())
}

/// None: it is but a sign of life.
fn data_of(block: &str) -> Option<String> {
    let lines = block.lines().filter_map(|line| line.strip_prefix("data:"));
    let lines: Vec<_> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_told_apart_from_signs_of_life() {
        let mut arrived = b":\n\nid: 1\nevent: stdout\ndata: {\"a\":\ndata: 1}\n\nid: 2".to_vec();

        let life = take_block(&mut arrived).unwrap();
        let event = take_block(&mut arrived).unwrap();

        assert_eq!(data_of(&life), None);
        assert_eq!(data_of(&event).as_deref(), Some("{\"a\":\n1}"));
        assert_eq!(take_block(&mut arrived), None);
    }
}
