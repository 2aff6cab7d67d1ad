//! Exit codes of the program.

use pinfold_api::Cause;

/// Pinfold itself failed, not the command it ran.
pub(crate) const FAILED_TO_RUN: u8 = 125;
/// A command other than `run`, `exec` and `shell` failed, or its check found a problem.
pub(crate) const FAILED: u8 = 1;
pub(crate) const BAD_INPUT: u8 = 2;
/// Interrupted by a signal.
pub(crate) const INTERRUPTED: u8 = 130;

pub(crate) const CODES: &str = "\
Exit codes of `run`, `exec` and `shell`: the command's own; 124 time, inactivity, idle or life limit; 137 another
limit; 130 stopped; 125 Pinfold failed; 126 not executable; 127 not found; 128+n signal n.
Of all other commands: 0 done, 1 failed or a problem found, 130 interrupted. Of every command: 2 bad usage.";

/// The command's own exit code, or the code of the cause that ended it.
pub(crate) fn code_of(cause: Cause, exit_code: Option<i32>) -> u8 {
    let own = exit_code.and_then(|code| u8::try_from(code).ok());
    match cause {
        Cause::Completed | Cause::ExitNonzero => own.unwrap_or(1),
        Cause::TimeLimit | Cause::Inactivity | Cause::Idle | Cause::MaxLife => 124,
        Cause::MemoryLimit
        | Cause::CpuLimit
        | Cause::NetworkLimit
        | Cause::DiskLimit
        | Cause::ProcessLimit
        | Cause::OutputLimit
        | Cause::OperationLimit => 137,
        Cause::StoppedByUser | Cause::Cancelled | Cause::EvictedEmergency => 130,
        Cause::StartDeadline
        | Cause::StartFailed
        | Cause::ProbeFailed
        | Cause::CallerGone
        | Cause::Shutdown
        | Cause::Orphan
        | Cause::Lost
        | Cause::HostRestarted
        | Cause::ProviderError
        | Cause::KeeperKilled => FAILED_TO_RUN,
    }
}
