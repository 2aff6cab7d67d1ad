//! Each attempt fails as documented, and has another outcome once its group alone is allowed.

use pinfold_confine::{Profile, SyscallGroup, WORKLOAD_CAPABILITIES};

use crate::attempts::{ATTEMPTS, Attempt, Proof};
use crate::fixture::{Outcome, try_confined};

const ERRNO_NAMES: &[(i32, &str)] = &[
    (libc::EPERM, "EPERM"),
    (libc::ENOENT, "ENOENT"),
    (libc::EBADF, "EBADF"),
    (libc::EFAULT, "EFAULT"),
    (libc::EINVAL, "EINVAL"),
    (libc::ENOSYS, "ENOSYS"),
    (libc::ENOPROTOOPT, "ENOPROTOOPT"),
    (libc::EPROTONOSUPPORT, "EPROTONOSUPPORT"),
    (libc::ESOCKTNOSUPPORT, "ESOCKTNOSUPPORT"),
    (libc::EAFNOSUPPORT, "EAFNOSUPPORT"),
    (libc::ENOKEY, "ENOKEY"),
];

#[test]
fn every_group_is_denied_and_every_attempt_is_real() {
    let rows: Vec<(&Attempt, Outcome, Option<Outcome>)> =
        ATTEMPTS.iter().map(|attempt| (attempt, try_denied(attempt), try_allowed(attempt))).collect();

    for (attempt, denied, allowed) in &rows {
        let group = attempt.group.map_or_else(|| "-".to_owned(), |group| format!("{group:?}"));
        println!("{:<16} {:<34} {:<16} {}", group, attempt.name, describe(*denied), proof(attempt, *allowed));
    }
    let wrong: Vec<String> =
        rows.iter().filter_map(|(attempt, denied, allowed)| mismatch(attempt, *denied, *allowed)).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_group_is_tried() {
    let untried: Vec<&SyscallGroup> = SyscallGroup::ALL
        .iter()
        .filter(|group| !ATTEMPTS.iter().any(|attempt| attempt.group == Some(**group)))
        .collect();

    for group in SyscallGroup::ALL {
        println!("{:<16} {}", format!("{group:?}"), group.reason());
    }
    let expected: &[&SyscallGroup] =
        if cfg!(target_arch = "x86_64") { &[] } else { &[&SyscallGroup::ForeignCalls] };
    assert_eq!(untried, expected);
}

#[test]
fn only_tracing_is_allowed_by_default() {
    let allowed: Vec<&SyscallGroup> =
        SyscallGroup::ALL.iter().filter(|group| Profile::default().allows(**group)).collect();

    assert_eq!(allowed, [&SyscallGroup::Tracing]);
}

#[test]
fn the_security_document_lists_every_group() {
    let document = include_str!("../../../../docs/security.md");
    let (_, rest) = document.split_once("<!-- syscall-groups:begin -->\n").unwrap();
    let (listed, _) = rest.split_once("<!-- syscall-groups:end -->").unwrap();

    let mut expected = String::from("| group | reason | |\n|---|---|---|\n");
    for group in SyscallGroup::ALL {
        let state = if Profile::default().allows(*group) { "allowed" } else { "denied" };
        expected.push_str(&format!("| {group:?} | {} | {state} |\n", group.reason()));
    }

    assert_eq!(listed, expected, "\nexpected:\n{expected}");
}

fn profile(attempt: &Attempt) -> Profile {
    Profile { capabilities: WORKLOAD_CAPABILITIES | attempt.needs, ..Profile::default() }
}

fn try_denied(attempt: &Attempt) -> Outcome {
    let profile = profile(attempt);
    let profile = attempt.group.map_or(profile.clone(), |group| profile.with_denied(group));
    try_confined(&profile, attempt.act)
}

fn try_allowed(attempt: &Attempt) -> Option<Outcome> {
    match (attempt.group, attempt.proof) {
        (Some(group), Proof::Succeeds | Proof::Differs) => {
            Some(try_confined(&profile(attempt).with_allowed(group), attempt.act))
        }
        (_, Proof::NotTried(_)) | (None, _) => None,
    }
}

fn mismatch(attempt: &Attempt, denied: Outcome, allowed: Option<Outcome>) -> Option<String> {
    let name = attempt.name;
    if denied != attempt.refused {
        return Some(format!("{name}: {} instead of {}", describe(denied), describe(attempt.refused)));
    }
    match (attempt.proof, allowed) {
        // This kernel was built without it, so there is nothing to prove here.
        (_, Some(Outcome::Failed(libc::ENOSYS))) => None,
        (Proof::Succeeds, Some(allowed)) if allowed != Outcome::Done => {
            Some(format!("{name}: with the group allowed {} instead of success", describe(allowed)))
        }
        (Proof::Differs, Some(allowed)) if allowed == denied => {
            Some(format!("{name}: {} with the group allowed too", describe(allowed)))
        }
        _ => None,
    }
}

fn describe(outcome: Outcome) -> String {
    match outcome {
        Outcome::Done => "succeeds".to_owned(),
        Outcome::Failed(errno) => {
            let name = ERRNO_NAMES.iter().find(|(number, _)| *number == errno);
            name.map_or_else(|| format!("errno {errno}"), |(_, name)| (*name).to_owned())
        }
        Outcome::Killed(signal) => format!("killed by {signal}"),
    }
}

fn proof(attempt: &Attempt, allowed: Option<Outcome>) -> String {
    match (attempt.proof, allowed) {
        (Proof::NotTried(why), _) => format!("no proof: {why}"),
        (_, Some(Outcome::Failed(libc::ENOSYS))) => "no proof: this kernel was built without it".to_owned(),
        (_, Some(allowed)) => format!("allowed: {}", describe(allowed)),
        (_, None) => String::new(),
    }
}
