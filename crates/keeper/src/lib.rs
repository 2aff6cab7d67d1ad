//! The keeper: process 1 of a Linux sandbox. It starts commands, watches them, enforces their limits and ends them.
//!
//! ```text
//!  control plane (crate `linux`; many threads)
//!    |  SpawnRequest + file descriptors over a Unix socket (standard input of the spawner)
//!    v
//!  spawner            one small single-threaded process per control plane          [`spawner`]
//!    |  clone3: new user, pid, mount, network, IPC and UTS namespaces, in the sandbox's cgroup
//!    v
//!  keeper             process 1 of one sandbox; outlives the spawner                `keeper`
//!    |    1. mounts its root, /dev, /proc, /sys, changes root                      `sandbox_setup`
//!    |    2. gives up capabilities, installs seccomp                               crate `confine`
//!    |    3. serves its control socket until its deadline                          crate `keeper-wire`
//!    |
//!    +--> execution   one command, confined further, in a process tree of its own   `execution`, `process_tree`
//!    +--> probe       runs `true` to prove that the sandbox works                   `probe`
//!    +--> file child  serves one file request, confined like an execution          `files`
//! ```
//!
//! When the keeper ends, the kernel kills everything in its pid namespace. It ends by itself when its deadline passes
//! without a keep-alive, so a sandbox never outlives its lease even if the control plane is gone.
//!
//! Main entry points: [`spawner::run`] and [`priority`]. Messages are in the crate `keeper-wire`, confinement is in
//! `confine`, output is written with `output-log`. All `unsafe` code is in `syscalls`.

mod cgroup_namespace;
mod connection;
mod console;
#[cfg(feature = "weakened")]
mod disabled_guards;
mod disk;
mod execution;
mod files;
mod input;
mod keeper;
mod launch;
mod limit_counters;
mod loop_device;
pub mod priority;
mod probe;
mod process_tree;
mod sandbox_setup;
mod sealed_exe;
pub mod spawner;
mod syscalls;
mod usage;

/// True in builds of the attack suite, whose guards can be disabled. The `pinfold` program refuses to compile with it.
pub const IS_WEAKENED: bool = cfg!(feature = "weakened");
