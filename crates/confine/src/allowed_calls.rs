//! The allow list: system calls that shells, compilers, interpreters, package managers and debuggers need.
//! A call that is neither here nor in a system call group fails with ENOSYS. Calls of future kernels therefore
//! stay denied until they are reviewed, and libc falls back to older ones.

use libc::c_long;

/// System call numbers of libc, plus the few that libc defines for only one of the two architectures.
pub(super) mod number {
    #![allow(non_upper_case_globals, reason = "named as libc names the others")]

    use libc::c_long;
    pub(crate) use libc::*;

    pub(crate) const SYS_fchmodat2: c_long = 452;
    pub(crate) const SYS_map_shadow_stack: c_long = 453;
    pub(crate) const SYS_open_tree_attr: c_long = 467;

    #[cfg(target_arch = "x86_64")]
    pub(crate) const SYS_io_pgetevents: c_long = 333;

    #[cfg(target_arch = "aarch64")]
    pub(crate) const SYS_io_pgetevents: c_long = 292;
    #[cfg(target_arch = "aarch64")]
    pub(crate) const SYS_renameat: c_long = 38;
    #[cfg(target_arch = "aarch64")]
    pub(crate) const SYS_sync_file_range: c_long = 84;
}

macro_rules! calls {
    ($($name:ident)*) => { &[$(number::$name),*] };
}

const DESCRIPTORS: &[c_long] = calls! {
    SYS_read SYS_write SYS_readv SYS_writev SYS_pread64 SYS_pwrite64 SYS_preadv SYS_pwritev SYS_preadv2
    SYS_pwritev2 SYS_lseek SYS_openat SYS_openat2 SYS_close SYS_close_range SYS_dup SYS_dup3 SYS_fcntl
    SYS_flock SYS_truncate SYS_ftruncate SYS_fallocate SYS_fsync SYS_fdatasync SYS_sync_file_range
    SYS_fadvise64 SYS_readahead SYS_copy_file_range SYS_tee SYS_vmsplice SYS_pipe2 SYS_ioctl
};

// chroot is allowed: pacman and apk chroot even into `/`. It is no way out, since the root of the mount
// namespace is the sandbox's own.
const PATHS: &[c_long] = calls! {
    SYS_newfstatat SYS_fstat SYS_statx SYS_statfs SYS_fstatfs SYS_faccessat SYS_faccessat2 SYS_readlinkat
    SYS_linkat SYS_symlinkat SYS_unlinkat SYS_mkdirat SYS_mknodat SYS_renameat SYS_renameat2 SYS_getdents64
    SYS_getcwd SYS_chdir SYS_fchdir SYS_chroot SYS_umask SYS_fchmod SYS_fchmodat SYS_fchmodat2 SYS_fchown
    SYS_fchownat SYS_utimensat SYS_getxattr SYS_lgetxattr SYS_fgetxattr SYS_setxattr SYS_lsetxattr
    SYS_fsetxattr SYS_listxattr SYS_llistxattr SYS_flistxattr SYS_removexattr SYS_lremovexattr
    SYS_fremovexattr
};

const MEMORY: &[c_long] = calls! {
    SYS_mmap SYS_munmap SYS_mremap SYS_mprotect SYS_madvise SYS_brk SYS_msync SYS_mincore SYS_mlock
    SYS_mlock2 SYS_mlockall SYS_munlock SYS_munlockall SYS_membarrier SYS_memfd_create SYS_pkey_alloc
    SYS_pkey_free SYS_pkey_mprotect SYS_mseal SYS_map_shadow_stack
};

// seccomp and landlock are allowed: a program can only confine itself further with them, and agents do.
const PROCESSES: &[c_long] = calls! {
    SYS_clone SYS_execve SYS_execveat SYS_exit SYS_exit_group SYS_wait4 SYS_waitid SYS_getpid SYS_getppid
    SYS_gettid SYS_set_tid_address SYS_setsid SYS_getsid SYS_setpgid SYS_getpgid SYS_kill SYS_tkill
    SYS_tgkill SYS_pidfd_open SYS_pidfd_send_signal SYS_prctl SYS_seccomp SYS_landlock_create_ruleset
    SYS_landlock_add_rule SYS_landlock_restrict_self SYS_rseq SYS_set_robust_list SYS_get_robust_list
    SYS_futex SYS_futex_waitv SYS_unshare SYS_personality SYS_restart_syscall SYS_getcpu
    SYS_sched_yield SYS_sched_getaffinity SYS_sched_setaffinity SYS_sched_getattr SYS_sched_setattr
    SYS_sched_getparam SYS_sched_setparam SYS_sched_getscheduler SYS_sched_setscheduler
    SYS_sched_get_priority_max SYS_sched_get_priority_min SYS_sched_rr_get_interval SYS_getpriority
    SYS_setpriority SYS_ioprio_get SYS_ioprio_set SYS_getrusage SYS_prlimit64 SYS_times SYS_sysinfo
    SYS_uname SYS_getrandom
};

const IDENTITY: &[c_long] = calls! {
    SYS_getuid SYS_geteuid SYS_getgid SYS_getegid SYS_getresuid SYS_getresgid SYS_getgroups SYS_setuid
    SYS_setgid SYS_setreuid SYS_setregid SYS_setresuid SYS_setresgid SYS_setfsuid SYS_setfsgid
    SYS_setgroups SYS_capget SYS_capset
};

const SIGNALS_AND_TIME: &[c_long] = calls! {
    SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn SYS_rt_sigpending SYS_rt_sigtimedwait
    SYS_rt_sigsuspend SYS_rt_sigqueueinfo SYS_rt_tgsigqueueinfo SYS_sigaltstack SYS_signalfd4
    SYS_clock_gettime SYS_clock_getres SYS_clock_nanosleep SYS_nanosleep SYS_gettimeofday SYS_timer_create
    SYS_timer_settime SYS_timer_gettime SYS_timer_getoverrun SYS_timer_delete SYS_timerfd_create
    SYS_timerfd_settime SYS_timerfd_gettime SYS_getitimer SYS_setitimer
};

const WAITING: &[c_long] = calls! {
    SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_pwait2 SYS_ppoll SYS_pselect6 SYS_eventfd2
    SYS_inotify_init1 SYS_inotify_add_watch SYS_inotify_rm_watch
};

const SOCKETS: &[c_long] = calls! {
    SYS_socket SYS_socketpair SYS_bind SYS_listen SYS_accept SYS_accept4 SYS_connect SYS_getsockname
    SYS_getpeername SYS_sendto SYS_recvfrom SYS_sendmsg SYS_recvmsg SYS_sendmmsg SYS_recvmmsg SYS_shutdown
    SYS_setsockopt SYS_getsockopt
};

// Each sandbox has its own IPC namespace.
const SHARED_MEMORY_AND_QUEUES: &[c_long] = calls! {
    SYS_shmget SYS_shmat SYS_shmdt SYS_shmctl SYS_semget SYS_semop SYS_semtimedop SYS_semctl SYS_msgget
    SYS_msgsnd SYS_msgrcv SYS_msgctl SYS_mq_open SYS_mq_unlink SYS_mq_timedsend SYS_mq_timedreceive
    SYS_mq_notify SYS_mq_getsetattr
};

/// Older x86-64 calls that were replaced by the `at` calls. Newer architectures never had them.
#[cfg(target_arch = "x86_64")]
const OLDER: &[c_long] = calls! {
    SYS_open SYS_creat SYS_stat SYS_lstat SYS_access SYS_readlink SYS_link SYS_symlink SYS_unlink SYS_rename
    SYS_mkdir SYS_rmdir SYS_mknod SYS_chmod SYS_chown SYS_lchown SYS_utime SYS_utimes SYS_futimesat
    SYS_getdents SYS_dup2 SYS_pipe SYS_poll SYS_select SYS_epoll_create SYS_epoll_wait SYS_eventfd
    SYS_signalfd SYS_inotify_init SYS_fork SYS_vfork SYS_getpgrp SYS_getrlimit SYS_setrlimit SYS_time
    SYS_alarm SYS_pause SYS_arch_prctl
};

#[cfg(target_arch = "aarch64")]
const OLDER: &[c_long] = &[];

/// All allowed calls. A system call group may still check the arguments of some.
pub(super) fn allowed() -> impl Iterator<Item = c_long> {
    let subjects = [
        DESCRIPTORS,
        PATHS,
        MEMORY,
        PROCESSES,
        IDENTITY,
        SIGNALS_AND_TIME,
        WAITING,
        SOCKETS,
        SHARED_MEMORY_AND_QUEUES,
        OLDER,
    ];
    subjects.into_iter().flatten().copied()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_call_is_listed_twice() {
        let mut seen = BTreeSet::new();

        let twice: Vec<c_long> = allowed().filter(|call| !seen.insert(*call)).collect();

        assert!(twice.is_empty(), "{twice:?}");
    }
}
