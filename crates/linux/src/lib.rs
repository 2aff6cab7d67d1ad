//! Sandboxes on this host with nothing but the kernel: namespaces, cgroups, overlay, seccomp.
//! Start reading at [`LinuxProvider`], then `start.rs` and `stop.rs`.

pub mod cgroup;
mod control;
mod dialogue;
pub mod doctor;
mod examine;
mod host_image;
mod id_ranges;
mod look;
mod mark;
mod mountinfo;
mod nursery;
mod places;
mod provider;
mod start;
mod stop;

pub use examine::Examined;
pub use nursery::NurseryProgram;
pub use provider::{LinuxConfig, LinuxProvider, OpenError};
