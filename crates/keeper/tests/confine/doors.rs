//! Each attempt fails as documented, and comes to something else once its one door is open.

use pinfold_keeper::confine::{Door, Profile, WORKLOAD_CAPABILITIES};

use crate::attempts::{ATTEMPTS, Attempt, Proof};
use crate::stage::{Outcome, try_confined};

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
fn every_door_is_shut_and_every_attempt_on_it_is_real() {
    let rows: Vec<(&Attempt, Outcome, Option<Outcome>)> =
        ATTEMPTS.iter().map(|attempt| (attempt, try_shut(attempt), try_open(attempt))).collect();

    for (attempt, shut, open) in &rows {
        let door = attempt.door.map_or_else(|| "-".to_owned(), |door| format!("{door:?}"));
        println!("{:<16} {:<34} {:<16} {}", door, attempt.name, shown(*shut), proof(attempt, *open));
    }
    let wrong: Vec<String> =
        rows.iter().filter_map(|(attempt, shut, open)| fault(attempt, *shut, *open)).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_door_is_tried() {
    let untried: Vec<&Door> = Door::ALL
        .iter()
        .filter(|door| !ATTEMPTS.iter().any(|attempt| attempt.door == Some(**door)))
        .collect();

    for door in Door::ALL {
        println!("{:<16} {}", format!("{door:?}"), door.why());
    }
    let expected: &[&Door] = if cfg!(target_arch = "x86_64") { &[] } else { &[&Door::ForeignCalls] };
    assert_eq!(untried, expected);
}

#[test]
fn only_tracing_is_open_by_default() {
    let open: Vec<&Door> = Door::ALL.iter().filter(|door| Profile::default().is_open(**door)).collect();

    assert_eq!(open, [&Door::Tracing]);
}

#[test]
fn the_document_for_users_lists_every_door_as_it_is() {
    let document = include_str!("../../../../docs/security.md");
    let (_, rest) = document.split_once("<!-- doors:begin -->\n").unwrap();
    let (listed, _) = rest.split_once("<!-- doors:end -->").unwrap();

    let mut expected = String::from("| door | why | |\n|---|---|---|\n");
    for door in Door::ALL {
        let state = if Profile::default().is_open(*door) { "open" } else { "shut" };
        expected.push_str(&format!("| {door:?} | {} | {state} |\n", door.why()));
    }

    assert_eq!(listed, expected, "\nit should be:\n{expected}");
}

fn profile(attempt: &Attempt) -> Profile {
    Profile { capabilities: WORKLOAD_CAPABILITIES | attempt.needs, ..Profile::default() }
}

fn try_shut(attempt: &Attempt) -> Outcome {
    let profile = profile(attempt);
    let profile = attempt.door.map_or(profile.clone(), |door| profile.with_shut(door));
    try_confined(&profile, attempt.act)
}

fn try_open(attempt: &Attempt) -> Option<Outcome> {
    match (attempt.door, attempt.proof) {
        (Some(door), Proof::Succeeds | Proof::Differs) => {
            Some(try_confined(&profile(attempt).with_open(door), attempt.act))
        }
        (_, Proof::Nowhere(_)) | (None, _) => None,
    }
}

fn fault(attempt: &Attempt, shut: Outcome, open: Option<Outcome>) -> Option<String> {
    let name = attempt.name;
    if shut != attempt.refused {
        return Some(format!("{name}: {} instead of {}", shown(shut), shown(attempt.refused)));
    }
    match (attempt.proof, open) {
        // This kernel was built without it, so there is nothing to prove here.
        (_, Some(Outcome::Failed(libc::ENOSYS))) => None,
        (Proof::Succeeds, Some(open)) if open != Outcome::Done => {
            Some(format!("{name}: with the door open {} instead of success", shown(open)))
        }
        (Proof::Differs, Some(open)) if open == shut => {
            Some(format!("{name}: {} with the door open too", shown(open)))
        }
        _ => None,
    }
}

fn shown(outcome: Outcome) -> String {
    match outcome {
        Outcome::Done => "succeeds".to_owned(),
        Outcome::Failed(errno) => {
            let name = ERRNO_NAMES.iter().find(|(number, _)| *number == errno);
            name.map_or_else(|| format!("errno {errno}"), |(_, name)| (*name).to_owned())
        }
        Outcome::Killed(signal) => format!("killed by {signal}"),
    }
}

fn proof(attempt: &Attempt, open: Option<Outcome>) -> String {
    match (attempt.proof, open) {
        (Proof::Nowhere(why), _) => format!("no proof: {why}"),
        (_, Some(Outcome::Failed(libc::ENOSYS))) => "no proof: this kernel was built without it".to_owned(),
        (_, Some(open)) => format!("open: {}", shown(open)),
        (_, None) => String::new(),
    }
}
