//! Talking to what runs: signals, input, the size of a terminal.

/// Bytes for an execution's input. The same may be fed again: what was accepted already is passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feed<'a> {
    /// How many bytes were fed before these.
    pub at: u64,
    pub bytes: &'a [u8],
    /// Nothing comes after these. Holds once all of them are accepted.
    pub close: bool,
}

/// What an execution's input has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fed {
    /// Of all that was ever fed: the place from which to go on.
    pub accepted: u64,
    /// Nothing more is accepted: it was closed, or nobody reads it.
    pub closed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    pub columns: u16,
    pub rows: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignalError {
    #[error("the body does not know this execution")]
    NoSuchExecution,
    #[error("the execution has ended")]
    NotRunning,
    #[error("{signal} is not the number of a signal")]
    NoSuchSignal { signal: i32 },
    #[error("the body cannot be asked: {why}")]
    Unreachable { why: String },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FeedError {
    #[error("the body does not know this execution")]
    NoSuchExecution,
    #[error("the execution has ended")]
    NotRunning,
    #[error("the execution was started without an input")]
    NoInput,
    #[error("the body cannot be asked: {why}")]
    Unreachable { why: String },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResizeError {
    #[error("the body does not know this execution")]
    NoSuchExecution,
    #[error("the execution has ended")]
    NotRunning,
    #[error("the execution was started without a terminal")]
    NoTerminal,
    #[error("the body cannot be asked: {why}")]
    Unreachable { why: String },
}
