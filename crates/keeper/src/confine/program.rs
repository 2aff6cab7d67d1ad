//! Turns a table of verdicts into one seccomp program: a search tree over ranges of call numbers, with
//! looks at arguments at its leaves. One program for all answers, because stacked ones each cost every
//! call, and a tree because the kernel tries every call number against the program when it is loaded.

use std::collections::BTreeMap;

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_MAXINSNS, BPF_RET,
    BPF_W, SECCOMP_RET_ALLOW, SECCOMP_RET_DATA, SECCOMP_RET_ERRNO, SECCOMP_RET_KILL_PROCESS, sock_filter,
};
use rustix::io::Errno;

use super::PrepareError;

#[cfg(test)]
mod tests;

/// `AUDIT_ARCH_X86_64` and `AUDIT_ARCH_AARCH64`: the machine's number, 64 bits, little-endian.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// Where `struct seccomp_data` has what we look at.
const NUMBER_OFFSET: u32 = 0;
const ARCHITECTURE_OFFSET: u32 = 4;
const ARGUMENTS_OFFSET: u32 = 16;

/// What becomes of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Allow,
    Refuse(Errno),
    /// Nothing is done, and the answer is 0.
    Feign,
    /// The first clause that holds refuses; if none does, the call is allowed.
    Inspect(Vec<Clause>),
}

/// Refuses a call for which all conditions hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Clause {
    pub(super) when: &'static [Condition],
    pub(super) refusal: Errno,
}

/// A look at the lower half of one argument: everything we judge is an `int` to the kernel, which drops the
/// upper half, so a program that looked at it could be talked past (CVE-2019-7303).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Condition {
    pub(super) argument: u8,
    pub(super) mask: u32,
    pub(super) masked: Masked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Masked {
    OneOf(&'static [u32]),
    NoneOf(&'static [u32]),
}

/// What becomes of calls made in the manner of another architecture, such as i386 on x86-64. Their numbers
/// mean other calls, so no verdict of ours fits them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ForeignCalls {
    Kill,
    Allow,
}

/// A program ready for the kernel.
#[derive(Debug)]
pub(super) struct Program {
    instructions: Vec<sock_filter>,
}

impl Program {
    /// Calls without a verdict get `otherwise`; so do x32 calls, whose numbers begin at 0x4000_0000.
    pub(super) fn assemble(
        verdicts: &BTreeMap<u32, Verdict>,
        otherwise: &Verdict,
        foreign: ForeignCalls,
    ) -> Result<Self, PrepareError> {
        let foreign = match foreign {
            ForeignCalls::Kill => SECCOMP_RET_KILL_PROCESS,
            ForeignCalls::Allow => SECCOMP_RET_ALLOW,
        };
        let mut instructions = vec![
            load(ARCHITECTURE_OFFSET),
            jump(BPF_JEQ, ARCHITECTURE, 1, 0)?,
            answer(foreign),
            load(NUMBER_OFFSET),
        ];
        instructions.extend(search(&ranges(verdicts, otherwise))?);
        let length = instructions.len();
        if u32::try_from(length).is_ok_and(|length| length <= BPF_MAXINSNS.unsigned_abs()) {
            Ok(Self { instructions })
        } else {
            Err(PrepareError::TooLong { length })
        }
    }

    pub(super) fn instructions(&self) -> &[sock_filter] {
        &self.instructions
    }
}

/// Neighbours with the same verdict, joined. Each range ends where the next begins.
fn ranges(verdicts: &BTreeMap<u32, Verdict>, otherwise: &Verdict) -> Vec<(u32, Verdict)> {
    let mut ranges = vec![(0, otherwise.clone())];
    let mut begin = |number: u32, verdict: &Verdict| match ranges.last_mut() {
        Some((_, last)) if last == verdict => {}
        Some((start, last)) if *start == number => *last = verdict.clone(),
        _ => ranges.push((number, verdict.clone())),
    };
    for (&number, verdict) in verdicts {
        begin(number, verdict);
        let next = number.saturating_add(1);
        if !verdicts.contains_key(&next) {
            begin(next, otherwise);
        }
    }
    ranges
}

/// Halves the ranges until one is left. The call's number is in the accumulator.
fn search(ranges: &[(u32, Verdict)]) -> Result<Vec<sock_filter>, PrepareError> {
    match ranges {
        [] => Ok(vec![]),
        [(_, verdict)] => leaf(verdict),
        _ => {
            let (below, above) = ranges.split_at(ranges.len() / 2);
            let from = above[0].0;
            let below = search(below)?;
            // A conditional jump reaches 255 instructions, an unconditional one as far as it must.
            let mut code = match u8::try_from(below.len()) {
                Ok(_) => vec![jump(BPF_JGE, from, below.len(), 0)?],
                Err(_) => vec![jump(BPF_JGE, from, 0, 1)?, leap(below.len())?],
            };
            code.extend(below);
            code.extend(search(above)?);
            Ok(code)
        }
    }
}

fn leaf(verdict: &Verdict) -> Result<Vec<sock_filter>, PrepareError> {
    match verdict {
        Verdict::Allow => Ok(vec![answer(SECCOMP_RET_ALLOW)]),
        Verdict::Refuse(errno) => Ok(vec![refusal(*errno)]),
        Verdict::Feign => Ok(vec![answer(SECCOMP_RET_ERRNO)]),
        Verdict::Inspect(clauses) => {
            let mut code = Vec::new();
            for clause in clauses {
                code.extend(inspect(clause)?);
            }
            code.push(answer(SECCOMP_RET_ALLOW));
            Ok(code)
        }
    }
}

/// Built from its end: a condition that does not hold jumps over all that is there already.
fn inspect(clause: &Clause) -> Result<Vec<sock_filter>, PrepareError> {
    let mut code = vec![refusal(clause.refusal)];
    for condition in clause.when.iter().rev() {
        let mut look = look(condition, code.len())?;
        look.append(&mut code);
        code = look;
    }
    Ok(code)
}

/// Falls through if the condition holds, and jumps over `skipped` instructions if not.
fn look(condition: &Condition, skipped: usize) -> Result<Vec<sock_filter>, PrepareError> {
    let mut code = vec![load(ARGUMENTS_OFFSET + 8 * u32::from(condition.argument))];
    if condition.mask != u32::MAX {
        code.push(instruction(BPF_ALU | BPF_AND | BPF_K, condition.mask));
    }
    let (Masked::OneOf(values) | Masked::NoneOf(values)) = condition.masked;
    for (index, &value) in values.iter().enumerate() {
        let left = values.len() - 1 - index;
        code.push(match condition.masked {
            Masked::NoneOf(_) => jump(BPF_JEQ, value, left + skipped, 0)?,
            Masked::OneOf(_) if left == 0 => jump(BPF_JEQ, value, 0, skipped)?,
            Masked::OneOf(_) => jump(BPF_JEQ, value, left, 0)?,
        });
    }
    Ok(code)
}

fn load(offset: u32) -> sock_filter {
    instruction(BPF_LD | BPF_W | BPF_ABS, offset)
}

fn answer(action: u32) -> sock_filter {
    instruction(BPF_RET | BPF_K, action)
}

fn refusal(errno: Errno) -> sock_filter {
    answer(SECCOMP_RET_ERRNO | errno.raw_os_error().unsigned_abs() & SECCOMP_RET_DATA)
}

fn leap(distance: usize) -> Result<sock_filter, PrepareError> {
    let distance = u32::try_from(distance).map_err(|_| PrepareError::TooLong { length: distance })?;
    Ok(instruction(BPF_JMP | BPF_JA, distance))
}

fn jump(comparison: u32, value: u32, if_so: usize, if_not: usize) -> Result<sock_filter, PrepareError> {
    let near = |distance| u8::try_from(distance).map_err(|_| PrepareError::JumpTooFar { distance });
    let mut code = instruction(BPF_JMP | BPF_K | comparison, value);
    code.jt = near(if_so)?;
    code.jf = near(if_not)?;
    Ok(code)
}

#[allow(clippy::cast_possible_truncation, reason = "every operation code of the kernel is below 256")]
fn instruction(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}
