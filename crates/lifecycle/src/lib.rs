//! What a sandbox and its executions may become next, and what must be done to get them there.
