//! Server-sent events of one execution, parsed as they arrive.

use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::Incoming;
use pinfold_api::{EXECUTION_ID, OutputEvent, SANDBOX_ID};

use crate::ClientError;

/// The event stream of one execution.
pub struct Events {
    body: Incoming,
    buffer: Vec<u8>,
    execution: Option<String>,
    sandbox: Option<String>,
}

impl Events {
    pub(crate) fn from_response(response: Response<Incoming>) -> Result<Self, ClientError> {
        let header = |name| {
            let value = response.headers().get(name).map(hyper::header::HeaderValue::to_str).transpose();
            let value = value.map_err(|error| ClientError::Decode(error.into()))?;
            Ok(value.map(str::to_owned))
        };
        let (execution, sandbox) = (header(EXECUTION_ID)?, header(SANDBOX_ID)?);
        Ok(Self { body: response.into_body(), buffer: Vec::new(), execution, sandbox })
    }

    /// The execution whose output this is.
    #[must_use]
    pub fn execution(&self) -> Option<&str> {
        self.execution.as_deref()
    }

    /// The sandbox that the server created for it, if the request created one.
    #[must_use]
    pub fn sandbox(&self) -> Option<&str> {
        self.sandbox.as_deref()
    }

    /// Returns the next event, or none when the stream ends. The execution has ended only after [`OutputEvent::Exit`].
    pub async fn next(&mut self) -> Result<Option<OutputEvent>, ClientError> {
        loop {
            while let Some(block) = take_block(&mut self.buffer) {
                if let Some(data) = data_field(&block) {
                    let event = serde_json::from_str(&data);
                    return event.map(Some).map_err(|error| ClientError::Decode(error.into()));
                }
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(ClientError::Interrupted(error.into())),
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        self.buffer.extend(bytes);
                    }
                }
            }
        }
    }
}

/// Takes one event block, up to the empty line that ends it.
fn take_block(arrived: &mut Vec<u8>) -> Option<String> {
    let end = arrived.windows(2).position(|pair| pair == b"\n\n")?;
    let block: Vec<u8> = arrived.drain(..end + 2).collect();
    Some(String::from_utf8_lossy(&block).into_owned())
}

/// Joins the `data:` lines of a block. None: a keep-alive comment.
fn data_field(block: &str) -> Option<String> {
    let lines = block.lines().filter_map(|line| line.strip_prefix("data:"));
    let lines: Vec<_> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keep_alive_comments_are_not_events() {
        let mut arrived = b":\n\nid: 1\nevent: stdout\ndata: {\"a\":\ndata: 1}\n\nid: 2".to_vec();

        let keep_alive = take_block(&mut arrived).unwrap();
        let event = take_block(&mut arrived).unwrap();

        assert_eq!(data_field(&keep_alive), None);
        assert_eq!(data_field(&event).as_deref(), Some("{\"a\":\n1}"));
        assert_eq!(take_block(&mut arrived), None);
    }
}
