//! The keeper's child processes that serve file requests: their number and their time limits.

use std::collections::HashMap;
use std::os::unix::net::UnixStream;

use pinfold_confine::syscalls::{Cloned, clone_process};
use rustix::process::{Pid, Signal, kill_process};

use super::serve;
use pinfold_confine::Confinement;
use pinfold_keeper_wire::files::{FileAnswer, FileReason, FileRequest};
use pinfold_keeper_wire::send;

/// Maximum number at a time. Further requests are refused.
const MOST: usize = 32;
/// Time limit of one request. A watch lasts until the client disconnects.
const LONGEST_MS: i64 = 300_000;

#[derive(Default)]
pub(crate) struct FileChildren {
    ends_at_ms: HashMap<Pid, Option<i64>>,
    pub(crate) served: u64,
}

impl FileChildren {
    /// Hands the connection to a child, or closes it with a refusal.
    pub(crate) fn hand_over(
        &mut self,
        request: &FileRequest,
        connection: UnixStream,
        confinement: &Confinement,
        now_ms: i64,
    ) {
        if self.ends_at_ms.len() >= MOST {
            return refuse(connection, FileReason::Busy, "too many requests for files at a time");
        }
        match clone_process(0, None) {
            Ok(Cloned::Child) => serve(request, connection, confinement),
            Ok(Cloned::Parent { pid, .. }) => {
                self.served += 1;
                let lasts = matches!(request, FileRequest::Watch { .. });
                let ends_at = (!lasts).then(|| now_ms.saturating_add(LONGEST_MS));
                self.ends_at_ms.extend(Pid::from_raw(pid).map(|pid| (pid, ends_at)));
            }
            Err(error) => refuse(connection, FileReason::Failed, &error.to_string()),
        }
    }

    /// Records the exit of a process. True: it was one of these children.
    pub(crate) fn reaped(&mut self, pid: Pid) -> bool {
        self.ends_at_ms.remove(&pid).is_some()
    }

    pub(crate) fn next_deadline(&self) -> Option<i64> {
        self.ends_at_ms.values().copied().flatten().min()
    }

    /// Kills overdue children. They are not reaped yet, so their pids still belong to them.
    pub(crate) fn end_overdue(&mut self, now_ms: i64) {
        for (pid, ends_at) in &mut self.ends_at_ms {
            if ends_at.is_some_and(|at| at <= now_ms) {
                *ends_at = None;
                let _ = kill_process(*pid, Signal::KILL);
            }
        }
    }
}

/// Sends a refusal. A failed send means that the client has disconnected.
pub(crate) fn refuse(mut connection: UnixStream, reason: FileReason, why: &str) {
    let _ = send(&mut connection, &FileAnswer::Refused { reason, why: why.to_owned() });
}
