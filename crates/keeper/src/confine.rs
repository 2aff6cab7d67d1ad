//! What a process gives up for good before hostile code runs in it: capabilities, new privileges, the kernel's
//! rarely needed doors, limits. Everything is prepared ahead, so that a forked child has only to apply it.

mod calls;
mod capabilities;
mod doors;
mod install;
mod limits;
mod program;

use std::collections::BTreeMap;

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Resource, set_dumpable_behavior};
pub use rustix::thread::CapabilitySet;
use rustix::thread::set_no_new_privs;

pub use capabilities::WORKLOAD as WORKLOAD_CAPABILITIES;
pub use doors::Door;
pub use limits::Limits;

use doors::Shut;
use program::{ForeignCalls, Program, Verdict};

/// How a workload is confined. The default is what every sandbox gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// What root inside may do, see [`WORKLOAD_CAPABILITIES`].
    pub capabilities: CapabilitySet,
    pub new_privileges: NewPrivileges,
    pub limits: Limits,
    /// Doors that are not shut.
    pub open_doors: Vec<Door>,
}

/// Whether an exec may give more than the process had: by set-user-id files or file capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewPrivileges {
    Refused,
    /// Without no_new_privs a filter costs `sys_admin`, so that the keeper can start executions as root only.
    Granted,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            capabilities: capabilities::WORKLOAD,
            new_privileges: NewPrivileges::Refused,
            limits: Limits::default(),
            open_doors: vec![Door::Tracing],
        }
    }
}

impl Profile {
    /// The same with one door open.
    #[must_use]
    pub fn with_open(mut self, door: Door) -> Self {
        self.open_doors.push(door);
        self
    }

    /// The same with one door shut that is open by default.
    #[must_use]
    pub fn with_shut(mut self, door: Door) -> Self {
        self.open_doors.retain(|open| *open != door);
        self
    }

    pub fn is_open(&self, door: Door) -> bool {
        self.open_doors.contains(&door)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    #[error(
        "a limit of {open_files} open files lets no program start: at least {} are needed",
        Limits::FEWEST_OPEN_FILES
    )]
    TooFewOpenFiles { open_files: u64 },
    #[error("the seccomp program has {length} instructions, more than the kernel takes")]
    TooLong { length: usize },
    #[error("the seccomp program jumps over {distance} instructions, farther than it can")]
    JumpTooFar { distance: usize },
}

/// A step that failed. Nothing may be executed after it: the process is confined in part.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("could not hide the keeper's memory")]
    Hide { source: Errno },
    #[error("could not lower the limit {resource:?}")]
    Limit { resource: Resource, source: Errno },
    #[error("could not drop capabilities from the bounding set")]
    Bound { source: Errno },
    #[error("could not forbid ambient capabilities")]
    Ambient { source: Errno },
    #[error("could not refuse new privileges")]
    NewPrivileges { source: Errno },
    #[error("could not install the seccomp program")]
    Seccomp { source: Errno },
    #[error("could not drop capabilities")]
    Capabilities { source: Errno },
}

/// By what the keeper finds all processes of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldBy {
    Groups,
    /// The views of control groups that processes have, which only `sys_ptrace` can read.
    Marks,
}

/// A profile made ready: applying it allocates nothing and needs no other thread.
///
/// ```text
/// keeper   prepare ── set up mounts, network ── apply_to_keeper ── serve ──┬── fork ──►
/// child                                          (pipes, setgroups, setgid, setuid) ── apply ── exec
/// ```
///
/// The keeper's program is the workload's, and `clone3` to put an execution straight into its cgroup, and `unshare`
/// for its view of cgroups. A child inherits it and adds only what shuts these two, which is cheaper than a whole
/// program for each execution and leaves no moment in which a child is less confined than its parent.
#[derive(Debug)]
pub struct Confinement {
    capabilities: CapabilitySet,
    new_privileges: NewPrivileges,
    limits: Limits,
    for_keeper: Program,
    for_child_of_keeper: Option<Program>,
    for_anyone: Program,
    keeper_is_confined: bool,
}

impl Confinement {
    pub fn prepare(profile: &Profile) -> Result<Self, PrepareError> {
        let open_files = profile.limits.open_files;
        if open_files < Limits::FEWEST_OPEN_FILES {
            return Err(PrepareError::TooFewOpenFiles { open_files });
        }
        let foreign =
            if profile.is_open(Door::ForeignCalls) { ForeignCalls::Allow } else { ForeignCalls::Kill };
        let unknown = Verdict::Refuse(Errno::NOSYS);
        let clone3 = call_number(libc::SYS_clone3);
        let unshare = call_number(libc::SYS_unshare);

        let mut verdicts = verdicts(profile);
        let for_anyone = Program::assemble(&verdicts, &unknown, foreign)?;
        verdicts.insert(clone3, Verdict::Allow);
        let shut = !profile.is_open(Door::Namespaces);
        if shut {
            verdicts.insert(unshare, Verdict::Inspect(doors::NAMESPACES_OF_KEEPER.to_vec()));
        }
        let for_keeper = Program::assemble(&verdicts, &unknown, foreign)?;
        let for_child_of_keeper = if shut {
            let views = Verdict::Inspect(doors::VIEWS_OF_GROUPS.to_vec());
            let rest = BTreeMap::from([(clone3, unknown), (unshare, views)]);
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
            for_anyone,
            keeper_is_confined: false,
        })
    }

    /// Confines the calling process as a workload: the last thing a child does before exec, after it has
    /// changed to its user. Descriptors and the working directory are the caller's to close and choose.
    pub fn apply(&self) -> Result<(), ApplyError> {
        limits::lower(&self.limits).map_err(|(resource, source)| ApplyError::Limit { resource, source })?;
        let program =
            if self.keeper_is_confined { self.for_child_of_keeper.as_ref() } else { Some(&self.for_anyone) };
        self.give_up(self.capabilities, program)
    }

    /// Confines the keeper itself, once it has nothing more to mount or configure. Children that it forks from
    /// then on are as confined as it is, and `apply` adds the rest.
    ///
    /// From here on nobody inside, root included, reads its memory, environment or descriptors under `/proc`.
    pub fn apply_to_keeper(&mut self, held_by: HeldBy) -> Result<(), ApplyError> {
        set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|source| ApplyError::Hide { source })?;
        limits::no_core_files().map_err(|(resource, source)| ApplyError::Limit { resource, source })?;
        let kept = match held_by {
            HeldBy::Groups => capabilities::KEEPER,
            HeldBy::Marks => capabilities::KEEPER | capabilities::READ_MARKS,
        };
        self.give_up(self.capabilities | kept, Some(&self.for_keeper))?;
        self.keeper_is_confined = true;
        Ok(())
    }

    /// The program is installed before capabilities go, in case new privileges are granted and it needs one.
    fn give_up(&self, kept: CapabilitySet, program: Option<&Program>) -> Result<(), ApplyError> {
        // Nothing ever comes back into a bounding set, and a child of the keeper begins with the keeper's.
        if !self.keeper_is_confined {
            capabilities::bound(self.capabilities).map_err(|source| ApplyError::Bound { source })?;
        }
        capabilities::forbid_ambient().map_err(|source| ApplyError::Ambient { source })?;
        if self.new_privileges == NewPrivileges::Refused {
            set_no_new_privs(true).map_err(|source| ApplyError::NewPrivileges { source })?;
        }
        if let Some(program) = program {
            install::install(program).map_err(|source| ApplyError::Seccomp { source })?;
        }
        capabilities::keep(kept).map_err(|source| ApplyError::Capabilities { source })
    }
}

/// What becomes of each call that is known: allowed, unless a shut door says otherwise.
fn verdicts(profile: &Profile) -> BTreeMap<u32, Verdict> {
    let mut verdicts: BTreeMap<u32, Verdict> =
        calls::allowed().map(|call| (call_number(call), Verdict::Allow)).collect();
    for &door in Door::ALL {
        let open = profile.is_open(door);
        for shut in door.shuts() {
            let (call, verdict) = match shut {
                Shut::Call(call) | Shut::Missing(call) | Shut::Unfit(call) | Shut::Feigned(call) if open => {
                    (call, Verdict::Allow)
                }
                Shut::Call(call) => (call, Verdict::Refuse(Errno::PERM)),
                Shut::Missing(call) => (call, Verdict::Refuse(Errno::NOSYS)),
                Shut::Unfit(call) => (call, Verdict::Refuse(Errno::INVAL)),
                Shut::Feigned(call) => (call, Verdict::Feign),
                Shut::When(_, _) if open => continue,
                Shut::When(call, clauses) => (call, Verdict::Inspect(clauses.to_vec())),
            };
            match (verdicts.get_mut(&call_number(*call)), verdict) {
                // Several doors look at one call: each may refuse it.
                (Some(Verdict::Inspect(all)), Verdict::Inspect(more)) => all.extend(more),
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
