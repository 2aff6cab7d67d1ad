//! What the program's exit code says.

use pinfold_api::Cause;

/// Pinfold itself failed, as opposed to what it ran.
pub(crate) const FAILED_TO_RUN: u8 = 125;
/// A command that runs nothing failed, or what was asked of it did not hold.
pub(crate) const FAILED: u8 = 1;
pub(crate) const BAD_INPUT: u8 = 2;
/// Somebody ended it before it was done.
pub(crate) const INTERRUPTED: u8 = 130;

pub(crate) const CODES: &str = "\
Exit codes of `run`, `exec` and `shell`: the command's own; 124 time, inactivity, idle or life limit; 137 another
limit; 130 stopped; 125 Pinfold failed; 126 not executable; 127 not found; 128+n signal n.
Of all other commands: 0 done, 1 failed or not so, 130 interrupted. Of every command: 2 bad usage.";

/// The command's own code, or one that says who ended it.
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
        | Cause::ProviderError => FAILED_TO_RUN,
    }
}
