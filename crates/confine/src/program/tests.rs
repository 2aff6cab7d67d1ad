//! Runs assembled programs in a small BPF interpreter, for every call number.

use super::*;

const TREE_WIDE: u32 = 1_000;

/// The program's return value for this call.
fn run(program: &Program, architecture: u32, number: u32, arguments: [u64; 6]) -> u32 {
    let (mut accumulator, mut next) = (0_u32, 0_usize);
    loop {
        let sock_filter { code, jt, jf, k } = program.instructions[next];
        next += 1;
        let holds = match u32::from(code) {
            c if c == BPF_LD | BPF_W | BPF_ABS => {
                accumulator = match k {
                    NUMBER_OFFSET => number,
                    ARCHITECTURE_OFFSET => architecture,
                    _ => u32::try_from(arguments[(k as usize - 16) / 8] & u64::from(u32::MAX)).unwrap(),
                };
                continue;
            }
            c if c == BPF_ALU | BPF_AND | BPF_K => {
                accumulator &= k;
                continue;
            }
            c if c == BPF_JMP | BPF_JA => {
                next += k as usize;
                continue;
            }
            c if c == BPF_RET | BPF_K => return k,
            c if c == BPF_JMP | BPF_JEQ | BPF_K => accumulator == k,
            c if c == BPF_JMP | BPF_JGE | BPF_K => accumulator >= k,
            c => panic!("unknown instruction {c:#x}"),
        };
        next += usize::from(if holds { jt } else { jf });
    }
}

fn run_native(program: &Program, number: u32, arguments: [u64; 6]) -> u32 {
    run(program, ARCHITECTURE, number, arguments)
}

fn refused(errno: Errno) -> u32 {
    SECCOMP_RET_ERRNO | errno.raw_os_error().unsigned_abs()
}

fn assemble(verdicts: &BTreeMap<u32, Verdict>) -> Program {
    Program::assemble(verdicts, &Verdict::Deny(Errno::NOSYS), ForeignCalls::Kill).unwrap()
}

#[test]
fn every_call_number_gets_its_own_verdict() {
    let verdict = |number: u32| match number % 7 {
        0 | 1 => Some(Verdict::Allow),
        3 => Some(Verdict::Deny(Errno::PERM)),
        5 => Some(Verdict::ReturnZero),
        _ => None,
    };
    let verdicts = (0..TREE_WIDE).filter_map(|number| Some((number, verdict(number)?))).collect();

    let program = assemble(&verdicts);

    for number in (0..2 * TREE_WIDE).chain([0x4000_0000, 0x4000_0001, u32::MAX]) {
        let expected = match verdicts.get(&number) {
            Some(Verdict::Allow) => SECCOMP_RET_ALLOW,
            Some(Verdict::Deny(errno)) => refused(*errno),
            Some(Verdict::ReturnZero) => SECCOMP_RET_ERRNO,
            _ => refused(Errno::NOSYS),
        };
        assert_eq!(run_native(&program, number, [0; 6]), expected, "call {number}");
    }
}

#[test]
fn a_call_of_another_architecture_kills_the_process_whatever_its_number() {
    let program = assemble(&BTreeMap::from([(1, Verdict::Allow)]));

    for number in [0, 1, 2, 0x4000_0001] {
        assert_eq!(run(&program, 0x4000_0003, number, [0; 6]), SECCOMP_RET_KILL_PROCESS);
    }
}

#[test]
fn a_rule_denies_only_if_all_conditions_hold_and_ignores_upper_halves() {
    const RULES: &[ArgumentRule] = &[
        ArgumentRule {
            when: &[
                ArgumentCondition { argument: 0, mask: u32::MAX, values: ValueSet::OneOf(&[3, 4, 5]) },
                ArgumentCondition { argument: 2, mask: 0xf, values: ValueSet::NoneOf(&[1, 2]) },
            ],
            errno: Errno::PERM,
        },
        ArgumentRule {
            when: &[ArgumentCondition { argument: 1, mask: 0x70, values: ValueSet::NoneOf(&[0]) }],
            errno: Errno::NOPROTOOPT,
        },
    ];
    let program = assemble(&BTreeMap::from([(9, Verdict::CheckArguments(RULES.to_vec()))]));

    for (first, second, third) in
        (0..8).flat_map(|a| (0..0x90).step_by(8).flat_map(move |b| (0..32).map(move |c| (a, b, c))))
    {
        let expected = if (3..=5).contains(&first) && !matches!(third & 0xf, 1 | 2) {
            refused(Errno::PERM)
        } else if second & 0x70 != 0 {
            refused(Errno::NOPROTOOPT)
        } else {
            SECCOMP_RET_ALLOW
        };
        for upper in [0, 1 << 32, u64::MAX << 32] {
            let arguments = [first | upper, second | upper, third | upper, 0, 0, 0];
            assert_eq!(run_native(&program, 9, arguments), expected, "{arguments:x?}");
        }
    }
}
