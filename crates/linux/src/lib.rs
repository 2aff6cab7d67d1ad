//! The `linux` provider: sandboxes on this host by kernel means alone (namespaces, cgroups, overlayfs, seccomp).
//!
//! [`LinuxProvider`] implements the provider contract; [`LinuxConfig`] configures it, [`cgroup`] manages cgroups, and
//! [`doctor`] reports what this host can enforce. Start reading at `start.rs` and `stop.rs`.
//!
//! ```text
//!       pinfold (engine)                     host                          inside the sandbox
//!     ┌──────────────────┐  SpawnRequest ┌───────────┐  clone3    ┌──────────────────────────┐
//!     │ LinuxProvider    ├──────────────►│ spawner   ├───────────►│ keeper (process 1)       │
//!     │  start, stop,    │               │ (fork     │            │  ├── execution           │
//!     │  observe, exec   │ control socket│  server)  │            │  └── execution           │
//!     │                  ├───────────────┴───────────┴───────────►│                          │
//!     └──────────────────┘  Confirm, Ping, Exec, Kill, Usage      └──────────────────────────┘
//! ```
//!
//! Each instance has one name (`instance_name.rs`), carried by everything it owns:
//!
//! ```text
//!     <data>/control/<name>/    socket, secret, keeper.pid (lock), launch (lock), id range, cgroup record
//!     <data>/instances/<name>/  storage, where it is on disk
//!     <cgroup base>/<name>/     keeper and work cgroups
//! ```
//!
//! The control directory is created first and removed last, so whatever a crash leaves is found by name.

mod blocking;
mod bounded_wait;
mod capacity;
pub mod cgroup;
mod cgroup_record;
mod control;
mod disk;
pub mod doctor;
mod durable;
mod files;
mod host_image;
mod id_ranges;
mod inspect;
mod instance_name;
mod keeper_calls;
mod keeper_watch;
mod kill_batching;
mod launches_in_flight;
mod mountinfo;
mod observe;
mod outputs;
mod paths;
mod pid_lock;
mod processes;
mod provider;
mod runtime_dir;
mod single_flight;
mod spawner;
mod start;
mod stop;
mod teardown;
mod usage;

pub use disk::{DEFAULT_DISK_MB, DEFAULT_INODES, StorageKind};
pub use host_image::HOST_IMAGE;
pub use id_ranges::FIRST_LAYER_ID;
pub use outputs::OutputDirectory;
pub use pinfold_keeper_wire::RootLayer;
pub use provider::{FindLayers, LinuxConfig, LinuxProvider, OpenError};
pub use spawner::SpawnerProgram;
