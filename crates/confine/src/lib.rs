//! Confinement of a process before it runs or parses hostile input: resource limits, capabilities, no_new_privs and a
//! seccomp filter. All of it is irrevocable. It is prepared in advance, so that a forked child only has to apply it.
//!
//! ```text
//!   keeper:    Profile -> Confinement::prepare          once
//!   child:                 Confinement::apply           after fork, before exec
//!   unpacker:  jail::run -> new namespaces, one directory as root, a narrower Profile
//! ```
//!
//! [`Profile`] says how a workload is confined, [`Confinement`] applies it, [`SyscallGroup`] names what is denied.
//! [`jail::run`] runs a function on hostile files. [`mounts`], [`syscalls`] and [`IdMap`] are the parts that enter new
//! namespaces; the keeper uses them too. All `unsafe` code is in `syscalls` and `install`.

mod allowed_calls;
mod capabilities;
mod id_map;
mod install;
pub mod jail;
mod limits;
pub mod mounts;
mod program;
mod syscall_groups;
pub mod syscalls;
#[cfg(feature = "weakened")]
pub mod weakened;

use std::collections::BTreeMap;

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Resource, set_dumpable_behavior};
pub use rustix::thread::CapabilitySet;
use rustix::thread::set_no_new_privs;

pub use capabilities::WORKLOAD as WORKLOAD_CAPABILITIES;
pub use id_map::{IdMap, map_ids, new_idmap_namespace};
pub use limits::Limits;
use limits::name as limit_name;
pub use syscall_groups::SyscallGroup;

use program::{ForeignCalls, Program, Verdict};
use syscall_groups::DenyRule;

/// How a workload is confined. The default applies to every sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Capabilities of root inside, see [`WORKLOAD_CAPABILITIES`].
    pub capabilities: CapabilitySet,
    pub new_privileges: NewPrivileges,
    pub limits: Limits,
    /// System call groups that are allowed in full. All others are denied.
    pub allowed_groups: Vec<SyscallGroup>,
}

/// Whether an exec may gain privileges through set-user-id files or file capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewPrivileges {
    Refused,
    /// Without no_new_privs, seccomp requires `sys_admin`: the keeper can then start executions as root only.
    Granted,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            capabilities: capabilities::WORKLOAD,
            new_privileges: NewPrivileges::Refused,
            limits: Limits::default(),
            allowed_groups: vec![SyscallGroup::Tracing],
        }
    }
}

impl Profile {
    /// Allows one more group.
    #[must_use]
    pub fn with_allowed(mut self, group: SyscallGroup) -> Self {
        self.allowed_groups.push(group);
        self
    }

    /// Denies a group that is allowed by default.
    #[must_use]
    pub fn with_denied(mut self, group: SyscallGroup) -> Self {
        self.allowed_groups.retain(|open| *open != group);
        self
    }

    pub fn allows(&self, group: SyscallGroup) -> bool {
        self.allowed_groups.contains(&group)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    #[error(
        "the limit of {open_files} open files is too low for any program to start: at least {} are needed",
        Limits::FEWEST_OPEN_FILES
    )]
    TooFewOpenFiles { open_files: u64 },
    #[error("the seccomp program has {length} instructions, more than the kernel takes")]
    TooLong { length: usize },
    #[error("the seccomp program jumps over {distance} instructions, more than 255")]
    JumpTooFar { distance: usize },
}

/// A failed step. The process is only partly confined and must not execute anything.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("could not make the keeper's memory undumpable")]
    Hide { source: Errno },
    #[error("could not lower the resource limit {}", limit_name(*resource))]
    Limit { resource: Resource, source: Errno },
    #[error("could not drop capabilities from the bounding set")]
    Bound { source: Errno },
    #[error("could not forbid ambient capabilities")]
    Ambient { source: Errno },
    #[error("could not set no_new_privs")]
    NewPrivileges { source: Errno },
    #[error("could not install the seccomp program")]
    Seccomp { source: Errno },
    #[error("could not drop capabilities")]
    Capabilities { source: Errno },
}

/// How the keeper finds all processes of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessTracking {
    Cgroups,
    /// By the cgroup namespace of each process in `/proc`, which requires `sys_ptrace`.
    CgroupNamespaces,
}

/// A prepared profile. Applying it allocates nothing and needs no other thread, so it is safe between fork and exec.
///
/// ```text
/// keeper   prepare ── set up mounts, network ── apply_to_keeper ── serve ──┬── fork ──►
/// child                                          (pipes, setgroups, setgid, setuid) ── apply ── exec
/// ```
///
/// The keeper's seccomp program is the workload's plus `clone3`, to start an execution directly in its cgroup, and
/// `unshare` of cgroup namespaces. A child inherits it and adds a small filter that denies these two. That is cheaper
/// than a full program per execution, and at no moment is a child less confined than its parent.
#[derive(Debug)]
pub struct Confinement {
    capabilities: CapabilitySet,
    new_privileges: NewPrivileges,
    limits: Limits,
    for_keeper: Program,
    for_child_of_keeper: Option<Program>,
    for_workload: Program,
    keeper_is_confined: bool,
}

impl Confinement {
    pub fn prepare(profile: &Profile) -> Result<Self, PrepareError> {
        let open_files = profile.limits.open_files;
        if open_files < Limits::FEWEST_OPEN_FILES {
            return Err(PrepareError::TooFewOpenFiles { open_files });
        }
        let foreign =
            if profile.allows(SyscallGroup::ForeignCalls) { ForeignCalls::Allow } else { ForeignCalls::Kill };
        let unknown = Verdict::Deny(Errno::NOSYS);
        let clone3 = call_number(libc::SYS_clone3);
        let unshare = call_number(libc::SYS_unshare);

        let mut verdicts = verdicts(profile);
        let for_workload = Program::assemble(&verdicts, &unknown, foreign)?;
        verdicts.insert(clone3, Verdict::Allow);
        let denied = !profile.allows(SyscallGroup::Namespaces);
        if denied {
            verdicts.insert(unshare, Verdict::CheckArguments(syscall_groups::KEEPER_UNSHARE.to_vec()));
        }
        let for_keeper = Program::assemble(&verdicts, &unknown, foreign)?;
        let for_child_of_keeper = if denied {
            let no_cgroup_namespaces = Verdict::CheckArguments(syscall_groups::CHILD_UNSHARE.to_vec());
            let rest = BTreeMap::from([(clone3, unknown), (unshare, no_cgroup_namespaces)]);
            Some(Program::assemble(&rest, &Verdict::Allow, foreign)?)
        } else {
            None
        };
        Ok(Self {
            capabilities: profile.capabilities,
            new_privileges: profile.new_privileges,
            limits: profile.limits,
            for_keeper,
            for_child_of_keeper,
            for_workload,
            keeper_is_confined: false,
        })
    }

    /// Confines the calling process as a workload: the last step of a child before exec, after it has changed to its
    /// user. The caller closes descriptors and chooses the working directory.
    pub fn apply(&self) -> Result<(), ApplyError> {
        limits::lower_all(&self.limits)
            .map_err(|(resource, source)| ApplyError::Limit { resource, source })?;
        let program = if self.keeper_is_confined {
            self.for_child_of_keeper.as_ref()
        } else {
            Some(&self.for_workload)
        };
        self.drop_privileges(self.capabilities, program)
    }

    /// Confines the keeper itself, once all mounts and the network are set up. Children inherit this confinement, and
    /// `apply` adds the rest.
    ///
    /// From here on no process inside, root included, can read the keeper's memory, environment or descriptors
    /// under `/proc`.
    pub fn apply_to_keeper(&mut self, tracking: ProcessTracking) -> Result<(), ApplyError> {
        // Make the process undumpable (prctl PR_SET_DUMPABLE): other processes cannot read it in /proc or trace it.
        set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|source| ApplyError::Hide { source })?;
        limits::no_core_files().map_err(|(resource, source)| ApplyError::Limit { resource, source })?;
        let kept = match tracking {
            ProcessTracking::Cgroups => capabilities::KEEPER,
            ProcessTracking::CgroupNamespaces => capabilities::KEEPER | capabilities::READ_NAMESPACES,
        };
        self.drop_privileges(self.capabilities | kept, Some(&self.for_keeper))?;
        self.keeper_is_confined = true;
        Ok(())
    }

    /// Gives up everything but `kept`. The seccomp program is installed before capabilities are dropped, because without
    /// no_new_privs the installation needs `sys_admin`.
    fn drop_privileges(&self, kept: CapabilitySet, program: Option<&Program>) -> Result<(), ApplyError> {
        // Drop capabilities from the bounding set. A child of the keeper inherits the reduced set; nothing can be added.
        if !self.keeper_is_confined {
            capabilities::drop_from_bounding_set(self.capabilities)
                .map_err(|source| ApplyError::Bound { source })?;
        }
        capabilities::forbid_ambient().map_err(|source| ApplyError::Ambient { source })?;
        if self.new_privileges == NewPrivileges::Refused {
            // Forbid gaining privileges by exec (prctl PR_SET_NO_NEW_PRIVS).
            set_no_new_privs(true).map_err(|source| ApplyError::NewPrivileges { source })?;
        }
        if let Some(program) = program {
            install::install(program).map_err(|source| ApplyError::Seccomp { source })?;
        }
        capabilities::drop_all_but(kept).map_err(|source| ApplyError::Capabilities { source })
    }
}

/// The verdict for each known call: allowed, unless a denied group has a rule for it.
fn verdicts(profile: &Profile) -> BTreeMap<u32, Verdict> {
    let mut verdicts: BTreeMap<u32, Verdict> =
        allowed_calls::allowed().map(|call| (call_number(call), Verdict::Allow)).collect();
    for &group in SyscallGroup::ALL {
        let allowed = profile.allows(group);
        for rule in group.deny_rules() {
            let (call, verdict) = match rule {
                DenyRule::Eperm(call)
                | DenyRule::Enosys(call)
                | DenyRule::Einval(call)
                | DenyRule::ReturnZero(call)
                    if allowed =>
                {
                    (call, Verdict::Allow)
                }
                DenyRule::Eperm(call) => (call, Verdict::Deny(Errno::PERM)),
                DenyRule::Enosys(call) => (call, Verdict::Deny(Errno::NOSYS)),
                DenyRule::Einval(call) => (call, Verdict::Deny(Errno::INVAL)),
                DenyRule::ReturnZero(call) => (call, Verdict::ReturnZero),
                DenyRule::IfArguments(_, _) if allowed => continue,
                DenyRule::IfArguments(call, rules) => (call, Verdict::CheckArguments(rules.to_vec())),
            };
            match (verdicts.get_mut(&call_number(*call)), verdict) {
                // Several groups check arguments of the same call: any of them may deny it.
                (Some(Verdict::CheckArguments(all)), Verdict::CheckArguments(more)) => all.extend(more),
                (_, verdict) => {
                    verdicts.insert(call_number(*call), verdict);
                }
            }
        }
    }
    verdicts
}

/// Call numbers are small; libc gives them the type of a register.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "call numbers are below 1,000")]
fn call_number(call: libc::c_long) -> u32 {
    call as u32
}
