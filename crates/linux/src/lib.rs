//! Sandboxes on this host with nothing but the kernel: namespaces, cgroups, overlay, seccomp.

pub mod cgroup;
