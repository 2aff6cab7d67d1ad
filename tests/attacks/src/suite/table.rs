//! Every attempt by group.

mod escape;
mod exhaustion;
mod files;
mod keeper;
mod network;
mod secrets;
mod service;
mod shared_files;
mod stopping;
mod unprivileged_user;

use crate::entry::Entry;

const TABLES: &[&[Entry]] = &[
    escape::ENTRIES,
    keeper::ENTRIES,
    network::ENTRIES,
    files::ENTRIES,
    shared_files::ENTRIES,
    service::ENTRIES,
    exhaustion::ENTRIES,
    stopping::ENTRIES,
    secrets::ENTRIES,
];

pub(crate) fn all() -> impl Iterator<Item = &'static Entry> {
    let tables =
        if crate::unprivileged_user::is_active() { &[unprivileged_user::ENTRIES][..] } else { TABLES };
    tables.iter().copied().flatten()
}
