//! Sandboxes on this host with nothing but the kernel: namespaces, cgroups, overlay, seccomp.
//! Start reading at [`LinuxProvider`], then `start.rs` and `stop.rs`.

mod aside;
mod capacity;
pub mod cgroup;
mod control;
mod dialogue;
mod disk;
pub mod doctor;
mod durable;
mod ending;
mod examine;
mod files;
mod group_note;
mod hold;
mod host_image;
mod id_ranges;
mod inside;
mod look;
mod mark;
mod mountinfo;
mod nursery;
mod patience;
mod places;
mod provider;
mod rush;
mod shared_look;
mod start;
mod stop;
mod under_way;
mod used;
mod volatile;

pub use disk::{DEFAULT_DISK_MB, DEFAULT_INODES, StorageKind};
pub use examine::{Examined, Fault};
pub use host_image::HOST_IMAGE;
pub use id_ranges::FIRST_LAYER_ID;
pub use inside::{Doing, ProcessState};
pub use nursery::NurseryProgram;
pub use pinfold_keeper::world::Layer;
pub use provider::{FindLayers, LinuxConfig, LinuxProvider, OpenError};
