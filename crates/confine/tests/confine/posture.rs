//! The exact capabilities, limits and modes of a confined program after exec.

use std::io;
use std::process::{Command, Output};

use libc::{SYS_setgid, SYS_setgroups, SYS_setuid};
use pinfold_confine::{CapabilitySet, Limits, NewPrivileges, PrepareError, Profile, WORKLOAD_CAPABILITIES};
use pinfold_confine::{Confinement, ProcessTracking};
use pinfold_test_support::skip;
use rustix::thread::{CapabilitySets, capabilities, configure_capability_in_ambient_set, set_capabilities};

use crate::fixture::{as_io, confined, run_after, run_confined};
use crate::raw_syscalls;

const OVERFLOW_ID: usize = 65_534;

/// A line of `/proc/self/status` or `/proc/self/limits`, without its name.
fn line(output: &Output, name: &str) -> String {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let found = text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
    found.unwrap_or_else(|| panic!("no `{name}` in: {text} {}", String::from_utf8_lossy(&output.stderr)))
}

fn status() -> Command {
    let mut command = Command::new("cat");
    command.arg("/proc/self/status");
    command
}

fn capability_line(output: &Output, name: &str) -> CapabilitySet {
    let bits = u64::from_str_radix(line(output, name).trim(), 16).unwrap();
    CapabilitySet::from_bits_retain(bits)
}

#[test]
fn root_inside_has_exactly_the_documented_capabilities_and_cannot_gain_more() {
    let output = run_confined(&Profile::default(), &mut status());

    assert_eq!(capability_line(&output, "CapBnd:"), WORKLOAD_CAPABILITIES);
    assert_eq!(capability_line(&output, "CapPrm:"), WORKLOAD_CAPABILITIES);
    assert_eq!(capability_line(&output, "CapEff:"), WORKLOAD_CAPABILITIES);
    assert_eq!(capability_line(&output, "CapInh:"), CapabilitySet::empty());
    assert_eq!(capability_line(&output, "CapAmb:"), CapabilitySet::empty());
    assert_eq!(line(&output, "NoNewPrivs:").trim(), "1");
    assert_eq!(line(&output, "Seccomp:").trim(), "2");
}

#[test]
fn inheritable_and_ambient_capabilities_from_outside_are_dropped() {
    let inherit = || -> io::Result<()> {
        let held = capabilities(None)?.permitted;
        set_capabilities(None, CapabilitySets { effective: held, permitted: held, inheritable: held })?;
        Ok(configure_capability_in_ambient_set(CapabilitySet::NET_ADMIN, true)?)
    };
    let confinement = confined(&Profile::default());

    let unconfined = run_after(&mut status(), inherit);
    let confined = run_after(&mut status(), move || {
        inherit()?;
        confinement.apply().map_err(|error| as_io(&error))
    });

    assert_eq!(capability_line(&unconfined, "CapAmb:"), CapabilitySet::NET_ADMIN);
    assert_eq!(capability_line(&confined, "CapAmb:"), CapabilitySet::empty());
    assert_eq!(capability_line(&confined, "CapInh:"), CapabilitySet::empty());
}

#[test]
fn a_child_of_the_keeper_that_changed_to_a_user_has_no_capability_and_the_same_filters() {
    if raw_syscalls::user_and_group().0 != 0 {
        return skip("a child of the keeper that changed to a user", "only root can become another user");
    }
    let mut confinement = confined(&Profile::default());
    let mut command = status();
    raw_syscalls::before_exec(&mut command, move || {
        let step = |call, id| raw_syscalls::call(call, &[id]).map_err(io::Error::from_raw_os_error);
        confinement.apply_to_keeper(ProcessTracking::Cgroups).map_err(|error| as_io(&error))?;
        step(SYS_setgroups, 0)?;
        step(SYS_setgid, OVERFLOW_ID)?;
        step(SYS_setuid, OVERFLOW_ID)?;
        confinement.apply().map_err(|error| as_io(&error))
    });

    let output = command.output().unwrap();

    assert_eq!(capability_line(&output, "CapPrm:"), CapabilitySet::empty());
    assert_eq!(capability_line(&output, "CapBnd:"), WORKLOAD_CAPABILITIES);
    assert_eq!(line(&output, "Uid:").split_whitespace().last(), Some("65534"));
    assert_eq!(line(&output, "NoNewPrivs:").trim(), "1");
    assert_eq!(line(&output, "Seccomp_filters:").trim(), "2");
}

#[test]
fn granting_new_privileges_changes_nothing_else() {
    let profile = Profile { new_privileges: NewPrivileges::Granted, ..Profile::default() };

    let output = run_confined(&profile, &mut status());

    assert_eq!(line(&output, "NoNewPrivs:").trim(), "0");
    assert_eq!(line(&output, "Seccomp:").trim(), "2");
    assert_eq!(capability_line(&output, "CapPrm:"), WORKLOAD_CAPABILITIES);
}

#[test]
fn resource_limits_are_those_of_the_profile() {
    let limits = Limits {
        open_files: 64,
        locked_bytes: 4_096,
        message_queue_bytes: 8_192,
        queued_signals: 32,
        file_locks: 16,
    };
    let mut command = Command::new("cat");
    command.arg("/proc/self/limits");

    let output = run_confined(&Profile { limits, ..Profile::default() }, &mut command);

    let both = |name: &str| line(&output, name).split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    assert_eq!(both("Max open files"), "64 64");
    assert_eq!(both("Max locked memory"), "4096 4096");
    assert_eq!(both("Max msgqueue size"), "8192 8192");
    assert_eq!(both("Max pending signals"), "32 32");
    assert_eq!(both("Max file locks"), "16 16");
    assert_eq!(both("Max core file size"), "0 0");
    assert_eq!(both("Max nice priority"), "0 0");
    assert_eq!(both("Max realtime priority"), "0 0");
}

#[test]
fn a_limit_of_open_files_too_low_for_any_program_is_refused() {
    let limits = Limits { open_files: 3, ..Limits::default() };

    let refusal = Confinement::prepare(&Profile { limits, ..Profile::default() });

    assert!(matches!(refusal, Err(PrepareError::TooFewOpenFiles { open_files: 3 })));
}
