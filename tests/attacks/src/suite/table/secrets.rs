//! Searches for secrets, and forged log records.

use pinfold_keeper_wire::DisabledGuard;

use crate::entry::{Act, Entry, Group, Proof, keepers_rights, without};
use crate::scenarios::secrets;

const fn hunt(
    name: &'static str,
    aims_at: &'static str,
    arguments: &'static [&'static str],
    proof: Proof,
) -> Entry {
    Entry::new(Group::Secrets, name, aims_at, Act::Hostile(arguments), proof)
}

pub(super) const ENTRIES: &[Entry] = &[
    Entry::new(
        Group::Secrets,
        "find_a_secret_in_environments",
        "an environment that is given",
        Act::Scenario(|fixture| Box::pin(secrets::hunt_the_callers_variable(fixture))),
        Proof::Without(|_| vec![DisabledGuard::LeakedVariable(secrets::VARIABLE.to_owned())]),
    ),
    hunt(
        "find_the_keepers_secret_in_environments",
        "no secret in environments",
        &["find-a-secret-in-environments"],
        Proof::Nowhere("the secret is made with the sandbox; its proof is the entry above"),
    ),
    hunt(
        "find_the_keepers_secret_in_arguments",
        "no secret in arguments",
        &["find-a-secret-in-arguments"],
        Proof::Nowhere("arguments are fixed before the secret is made"),
    ),
    hunt(
        "find_the_keepers_secret_in_its_memory",
        "keeper not dumpable, with rights of its own",
        &["find-a-secret-in-memory-of-process-1"],
        without![DisabledGuard::KeeperReadable, keepers_rights()],
    ),
    Entry::new(
        Group::Secrets,
        "find_the_keepers_secret_in_files",
        "no secret in files",
        Act::Hostile(&["find-a-secret-in-files"]),
        Proof::Naive(secrets::naive_secret),
    ),
    hunt("leave_a_core_file", "no core files", &["leave-a-core-file"], without![DisabledGuard::HostLimits]),
    Entry::new(
        Group::Secrets,
        "forge_a_piece_of_the_log",
        "framed output",
        Act::Scenario(|fixture| Box::pin(secrets::forge_a_piece(fixture))),
        Proof::Naive(secrets::naive_log),
    ),
    Entry::new(
        Group::Secrets,
        "borrow_gits_variables_of_the_caller",
        "an environment that is given",
        Act::Scenario(|fixture| Box::pin(secrets::variables_of_the_caller(fixture))),
        Proof::Without(|_| vec![DisabledGuard::LeakedVariable("GIT_SSH_COMMAND".to_owned())]),
    ),
    Entry::new(
        Group::Secrets,
        "find_the_hosts_own_configuration",
        "an /etc and /root of its own",
        Act::Scenario(|fixture| Box::pin(secrets::configuration_of_the_host(fixture))),
        Proof::Nowhere("a proof would show it real secrets of this host"),
    ),
];
