//! Frames of the control socket: a 4-byte little-endian length and a JSON message.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Maximum length of a message. A client that announces more is disconnected.
pub const MAX_MESSAGE_BYTES: usize = 4 * 1024 * 1024;

pub fn send(stream: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    stream.write_all(&frame(message)?)
}

/// A message with its length prefix, to be written in one call, so that the reader wakes up once.
pub fn frame(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let text = serde_json::to_vec(message)?;
    let length = u32::try_from(text.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut frame = Vec::with_capacity(text.len() + 4);
    frame.extend(length.to_le_bytes());
    frame.extend(text);
    Ok(frame)
}

pub fn receive<T: DeserializeOwned>(stream: &mut impl Read) -> io::Result<T> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > MAX_MESSAGE_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut text = vec![0; length];
    stream.read_exact(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

/// Removes the first complete message from the buffer, if there is one.
pub fn take<T: DeserializeOwned>(arrived: &mut Vec<u8>) -> io::Result<Option<T>> {
    let Some(length) = arrived.first_chunk::<4>() else { return Ok(None) };
    let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
    if length > MAX_MESSAGE_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    if arrived.len() < 4 + length {
        return Ok(None);
    }
    let message = serde_json::from_slice(&arrived[4..4 + length])?;
    arrived.drain(..4 + length);
    Ok(Some(message))
}
