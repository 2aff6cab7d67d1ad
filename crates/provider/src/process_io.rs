//! Signals, stdin and terminal size of an execution.

/// Bytes for an execution's stdin. A write may be repeated: bytes already accepted are skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StdinWrite<'a> {
    /// Offset of the first byte.
    pub at: u64,
    pub bytes: &'a [u8],
    /// Close stdin after these bytes, once all are accepted.
    pub close: bool,
}

/// The state of an execution's stdin after a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteResult {
    /// Bytes accepted in total: the offset to continue from.
    pub accepted: u64,
    /// No more is accepted: stdin was closed, or its reader is gone.
    pub closed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    pub columns: u16,
    pub rows: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignalError {
    #[error("no such execution in this instance")]
    NoSuchExecution,
    #[error("the execution has ended")]
    NotRunning,
    #[error("{signal} is not a signal number")]
    NoSuchSignal { signal: i32 },
    #[error("the instance cannot be reached: {why}")]
    Unreachable { why: String },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StdinError {
    #[error("no such execution in this instance")]
    NoSuchExecution,
    #[error("the execution has ended")]
    NotRunning,
    #[error("the execution was started without stdin")]
    NoInput,
    #[error("the instance cannot be reached: {why}")]
    Unreachable { why: String },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResizeError {
    #[error("no such execution in this instance")]
    NoSuchExecution,
    #[error("the execution has ended")]
    NotRunning,
    #[error("the execution was started without a terminal")]
    NoTerminal,
    #[error("the instance cannot be reached: {why}")]
    Unreachable { why: String },
}
