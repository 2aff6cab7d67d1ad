//! Compiles a table of verdicts into one seccomp BPF program: a binary search tree over ranges of call numbers, with
//! argument checks at its leaves. One program, because every stacked filter adds cost to each call; a tree, because
//! the kernel runs the program for every call number when it is loaded.

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

/// Field offsets in `struct seccomp_data`.
const NUMBER_OFFSET: u32 = 0;
const ARCHITECTURE_OFFSET: u32 = 4;
const ARGUMENTS_OFFSET: u32 = 16;

/// The result of a system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Allow,
    Deny(Errno),
    /// The call is not executed and returns 0.
    ReturnZero,
    /// The first rule that matches denies the call; if none does, it is allowed.
    CheckArguments(Vec<ArgumentRule>),
}

/// Denies a call if all conditions hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ArgumentRule {
    pub(super) when: &'static [ArgumentCondition],
    pub(super) errno: Errno,
}

/// A condition on the lower 32 bits of one argument. All checked arguments are an `int` to the kernel, which drops the
/// upper half: a filter that compared it could be bypassed (CVE-2019-7303). Only the flags of `mmap` are a `long`, and
/// those that are checked are in the lower half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ArgumentCondition {
    pub(super) argument: u8,
    pub(super) mask: u32,
    pub(super) values: ValueSet,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueSet {
    OneOf(&'static [u32]),
    NoneOf(&'static [u32]),
}

/// The result of calls through another architecture's interface, such as i386 on x86-64. The same numbers mean
/// different calls there, so the verdicts do not apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ForeignCalls {
    Kill,
    Allow,
}

/// An assembled program, ready to install.
#[derive(Debug)]
pub(super) struct Program {
    instructions: Vec<sock_filter>,
}

impl Program {
    /// Assembles the program. Calls without a verdict get `otherwise`; so do x32 calls, whose numbers start at
    /// 0x4000_0000.
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
            return_value(foreign),
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

/// Merges neighbouring numbers with the same verdict. Each range ends where the next begins.
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

/// Emits a binary search over the ranges. The call number is in the accumulator.
fn search(ranges: &[(u32, Verdict)]) -> Result<Vec<sock_filter>, PrepareError> {
    match ranges {
        [] => Ok(vec![]),
        [(_, verdict)] => leaf(verdict),
        _ => {
            let (below, above) = ranges.split_at(ranges.len() / 2);
            let from = above[0].0;
            let below = search(below)?;
            // A conditional jump reaches 255 instructions; an unconditional one has no such limit.
            let mut code = match u8::try_from(below.len()) {
                Ok(_) => vec![jump(BPF_JGE, from, below.len(), 0)?],
                Err(_) => vec![jump(BPF_JGE, from, 0, 1)?, jump_always(below.len())?],
            };
            code.extend(below);
            code.extend(search(above)?);
            Ok(code)
        }
    }
}

fn leaf(verdict: &Verdict) -> Result<Vec<sock_filter>, PrepareError> {
    match verdict {
        Verdict::Allow => Ok(vec![return_value(SECCOMP_RET_ALLOW)]),
        Verdict::Deny(errno) => Ok(vec![deny(*errno)]),
        Verdict::ReturnZero => Ok(vec![return_value(SECCOMP_RET_ERRNO)]),
        Verdict::CheckArguments(rules) => {
            let mut code = Vec::new();
            for rule in rules {
                code.extend(emit_rule(rule)?);
            }
            code.push(return_value(SECCOMP_RET_ALLOW));
            Ok(code)
        }
    }
}

/// Emits one rule, built backwards: a condition that does not hold jumps over all code emitted so far.
fn emit_rule(rule: &ArgumentRule) -> Result<Vec<sock_filter>, PrepareError> {
    let mut code = vec![deny(rule.errno)];
    for condition in rule.when.iter().rev() {
        let mut emit_condition = emit_condition(condition, code.len())?;
        emit_condition.append(&mut code);
        code = emit_condition;
    }
    Ok(code)
}

/// Emits one condition: falls through if it holds, and jumps over `skipped` instructions if not.
fn emit_condition(condition: &ArgumentCondition, skipped: usize) -> Result<Vec<sock_filter>, PrepareError> {
    let mut code = vec![load(ARGUMENTS_OFFSET + 8 * u32::from(condition.argument))];
    if condition.mask != u32::MAX {
        code.push(instruction(BPF_ALU | BPF_AND | BPF_K, condition.mask));
    }
    let (ValueSet::OneOf(values) | ValueSet::NoneOf(values)) = condition.values;
    for (index, &value) in values.iter().enumerate() {
        let left = values.len() - 1 - index;
        code.push(match condition.values {
            ValueSet::NoneOf(_) => jump(BPF_JEQ, value, left + skipped, 0)?,
            ValueSet::OneOf(_) if left == 0 => jump(BPF_JEQ, value, 0, skipped)?,
            ValueSet::OneOf(_) => jump(BPF_JEQ, value, left, 0)?,
        });
    }
    Ok(code)
}

fn load(offset: u32) -> sock_filter {
    instruction(BPF_LD | BPF_W | BPF_ABS, offset)
}

fn return_value(action: u32) -> sock_filter {
    instruction(BPF_RET | BPF_K, action)
}

fn deny(errno: Errno) -> sock_filter {
    return_value(SECCOMP_RET_ERRNO | errno.raw_os_error().unsigned_abs() & SECCOMP_RET_DATA)
}

fn jump_always(distance: usize) -> Result<sock_filter, PrepareError> {
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
