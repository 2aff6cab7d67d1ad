//! What the keeper hides from its children, and what they inherit from it.

use std::ffi::CString;

use libc::{EACCES, ENOSYS, EPERM, SIGCHLD, SYS_clone, SYS_clone3, SYS_getppid, SYS_mount, SYS_unshare};
use pinfold_confine::{CapabilitySet, Confinement, ProcessTracking, Profile, WORKLOAD_CAPABILITIES};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{CapabilitySets, set_capabilities};

use crate::fixture::{Act, Outcome, confined, errno_of, try_in_namespaces};
use crate::raw_syscalls::{call, exit_now, forking, open, value, wait_for};

/// Whether the child applies its own confinement or only inherits the keeper's.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Child {
    Applies,
    OnlyInherits,
}

/// The outcome of `act` in a child of a confined keeper, after the keeper did `before`.
fn in_a_child_of_the_keeper(child: Child, before: Act, act: Act) -> Outcome {
    let mut confinement = confined(&Profile::default());
    try_in_namespaces(move || {
        confinement.apply_to_keeper(ProcessTracking::Cgroups).map_err(|error| errno_of(&error))?;
        before()?;
        match value(SYS_clone, &[SIGCHLD as usize])? {
            0 => exit_now(as_child(&confinement, child, act)),
            pid => match wait_for(pid)? {
                0 => Ok(Ok(())),
                errno => Ok(Err(errno)),
            },
        }
    })
}

fn as_child(confinement: &Confinement, child: Child, act: Act) -> i32 {
    let applied = match child {
        Child::Applies => confinement.apply().map_err(|error| errno_of(&error)),
        Child::OnlyInherits => Ok(()),
    };
    applied.and_then(|()| act()).err().unwrap_or(0)
}

fn nothing() -> Result<(), i32> {
    Ok(())
}

fn become_readable() -> Result<(), i32> {
    set_dumpable_behavior(DumpableBehavior::Dumpable).map_err(|errno| errno.raw_os_error())
}

/// Drops to the workload's capabilities: a process with more cannot be read or traced.
fn drop_to_workload() -> Result<(), i32> {
    let held = CapabilitySets {
        effective: WORKLOAD_CAPABILITIES,
        permitted: WORKLOAD_CAPABILITIES,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, held).map_err(|errno| errno.raw_os_error())
}

fn become_readable_with_workload_capabilities() -> Result<(), i32> {
    drop_to_workload().and_then(|()| become_readable())
}

fn mount() -> Result<(), i32> {
    call(SYS_mount, &[c"none".as_ptr().addr(), c"/tmp".as_ptr().addr(), c"tmpfs".as_ptr().addr()])
}

fn clone3() -> Result<(), i32> {
    let arguments = [0, 0, 0, 0, SIGCHLD as u64, 0, 0, 0];
    forking(SYS_clone3, &[arguments.as_ptr().addr(), size_of_val(&arguments)])
}

fn open_of_parent(name: &str) -> Result<(), i32> {
    let parent = value(SYS_getppid, &[])?;
    let path = CString::new(format!("/proc/{parent}/{name}")).map_err(|_| libc::EINVAL)?;
    open(&path).map(|_| ())
}

#[test]
fn the_keeper_is_unreadable_through_proc_by_its_dumpable_flag_or_its_capabilities_alone() {
    let attempts: [(&str, Act); 5] = [
        ("environ", || open_of_parent("environ")),
        ("mem", || open_of_parent("mem")),
        ("maps", || open_of_parent("maps")),
        ("fd/0", || open_of_parent("fd/0")),
        ("root", || open_of_parent("root/")),
    ];

    for (name, attempt) in attempts {
        for guarded in [nothing, become_readable, drop_to_workload] {
            let hidden = in_a_child_of_the_keeper(Child::Applies, guarded, attempt);
            assert_eq!(hidden, Outcome::Failed(EACCES), "{name}");
        }
        let open =
            in_a_child_of_the_keeper(Child::Applies, become_readable_with_workload_capabilities, attempt);
        assert_eq!(open, Outcome::Done, "{name}");
    }
}

#[test]
fn the_keeper_is_untraceable_by_its_dumpable_flag_or_its_capabilities_alone() {
    let attach: Act = || {
        let seize = libc::PTRACE_SEIZE as usize;
        call(libc::SYS_ptrace, &[seize, value(SYS_getppid, &[])?])
    };

    for guarded in [nothing, become_readable, drop_to_workload] {
        let hidden = in_a_child_of_the_keeper(Child::Applies, guarded, attach);
        assert_eq!(hidden, Outcome::Failed(EPERM));
    }
    let open = in_a_child_of_the_keeper(Child::Applies, become_readable_with_workload_capabilities, attach);
    // Yama, where enabled, forbids tracing a parent.
    let yama = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    if matches!(yama.trim(), "" | "0") {
        assert_eq!(open, Outcome::Done);
    }
}

#[test]
fn a_confined_keeper_cannot_mount_or_create_namespaces() {
    for act in [mount, || call(SYS_unshare, &[libc::CLONE_NEWUSER as usize])] {
        let mut confinement = confined(&Profile::default());

        let outcome = try_in_namespaces(move || {
            confinement.apply_to_keeper(ProcessTracking::Cgroups).map_err(|error| errno_of(&error))?;
            Ok(act())
        });

        assert_eq!(outcome, Outcome::Failed(EPERM));
    }
}

/// A cgroup namespace is the only one that the keeper may create, and not together with another.
#[test]
fn the_keeper_creates_cgroup_namespaces_and_its_children_cannot() {
    let view = || call(SYS_unshare, &[libc::CLONE_NEWCGROUP as usize]);
    let more = || call(SYS_unshare, &[(libc::CLONE_NEWCGROUP | libc::CLONE_NEWNS) as usize]);

    assert_eq!(in_a_child_of_the_keeper(Child::Applies, view, nothing), Outcome::Done);
    assert_eq!(in_a_child_of_the_keeper(Child::OnlyInherits, nothing, view), Outcome::Done);
    assert_eq!(in_a_child_of_the_keeper(Child::Applies, nothing, view), Outcome::Failed(EPERM));
    assert_eq!(in_a_child_of_the_keeper(Child::OnlyInherits, nothing, more), Outcome::Failed(EPERM));
}

#[test]
fn a_child_that_only_inherits_is_already_confined() {
    assert_eq!(in_a_child_of_the_keeper(Child::OnlyInherits, nothing, mount), Outcome::Failed(EPERM));
}

#[test]
fn the_keeper_may_call_clone3_and_its_children_may_not() {
    assert_eq!(in_a_child_of_the_keeper(Child::Applies, clone3, nothing), Outcome::Done);
    assert_eq!(in_a_child_of_the_keeper(Child::Applies, nothing, clone3), Outcome::Failed(ENOSYS));
}
