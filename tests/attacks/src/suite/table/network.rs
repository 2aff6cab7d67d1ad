//! Attempts to reach a network from a sandbox that has none.

use pinfold_confine::CapabilitySet;
use pinfold_keeper_wire::DisabledGuard;

use crate::entry::{Act, Entry, Group, Proof, capability, without};
use crate::scenarios;

const NAMESPACE: &str = "network namespace without a link";
const HOST: Proof = without![DisabledGuard::HostNetwork];

const fn hostile(name: &'static str, arguments: &'static [&'static str], proof: Proof) -> Entry {
    Entry::new(Group::Network, name, NAMESPACE, Act::Hostile(arguments), proof)
}

/// An address on the internet, which the proof must not contact: it connects to a listener of the host instead.
const fn far(name: &'static str, arguments: &'static [&'static str]) -> Entry {
    hostile(
        name,
        arguments,
        Proof::WithoutAt(|_| vec![DisabledGuard::HostNetwork], &["connect", "127.0.0.1:{tcp}"]),
    )
}

pub(super) const ENTRIES: &[Entry] = &[
    hostile("connect_to_the_hosts_loopback", &["connect", "127.0.0.1:{tcp}"], HOST),
    hostile("connect_to_the_hosts_loopback_by_ipv6", &["connect", "[::1]:{tcp6}"], HOST),
    hostile("connect_by_a_mapped_address", &["connect", "[::ffff:127.0.0.1]:{tcp}"], HOST),
    hostile(
        "connect_to_another_address_of_the_loopback",
        &["connect", "127.8.8.8:{tcp}"],
        Proof::WithoutAt(|_| vec![DisabledGuard::HostNetwork], &["connect", "127.0.0.1:{tcp}"]),
    ),
    hostile("send_a_datagram_to_the_host", &["send-a-datagram", "127.0.0.1:{udp}"], HOST),
    far("connect_to_a_public_address", &["connect", "1.1.1.1:443"]),
    far("connect_to_a_public_address_by_ipv6", &["connect", "[2606:4700:4700::1111]:443"]),
    far("connect_by_nat64", &["connect", "[64:ff9b::101:101]:443"]),
    far("connect_to_the_metadata_address", &["connect", "169.254.169.254:80"]),
    far("connect_to_the_metadata_address_by_ipv6", &["connect", "[fd00:ec2::254]:80"]),
    far("connect_to_a_private_network", &["connect", "10.0.0.1:22"]),
    far("connect_to_its_gateway", &["visit-all-neighbours-addresses"]),
    hostile(
        "ask_a_name_server_of_its_own",
        &["send-a-datagram", "8.8.8.8:53"],
        Proof::WithoutAt(|_| vec![DisabledGuard::HostNetwork], &["send-a-datagram", "127.0.0.1:{udp}"]),
    ),
    hostile("send_raw_packets", &["raw-packets"], without![capability(CapabilitySet::NET_RAW)]),
    hostile(
        "change_its_interfaces",
        &["change-its-interfaces"],
        without![capability(CapabilitySet::NET_ADMIN)],
    ),
    hostile("see_other_interfaces", &["see-other-interfaces"], HOST),
    hostile("see_the_hosts_connections", &["see-the-hosts-connections"], HOST),
    hostile("connect_to_an_abstract_socket_of_the_host", &["abstract-socket-of-the-host"], HOST)
        .cve("CVE-2020-15257"),
    hostile("get_a_descriptor_from_outside_by_a_socket", &["descriptor-from-outside-by-a-socket"], HOST)
        .cve("CVE-2020-15257"),
    hostile("take_the_hosts_abstract_name", &["bind-the-hosts-abstract-name"], HOST),
    Entry::new(
        Group::Network,
        "visit_a_neighbour_sandbox",
        NAMESPACE,
        Act::Scenario(|fixture| {
            Box::pin(scenarios::network::visit_a_neighbour(fixture, "visit-a-neighbour"))
        }),
        Proof::Without(|_| vec![DisabledGuard::HostNetwork]),
    ),
    Entry::new(
        Group::Network,
        "visit_a_neighbour_sandbox_by_name",
        NAMESPACE,
        Act::Scenario(|fixture| {
            Box::pin(scenarios::network::visit_a_neighbour(fixture, "visit-a-neighbour-by-name"))
        }),
        Proof::Without(|_| vec![DisabledGuard::HostNetwork]),
    ),
];
