//! Every attempt by group.

mod escape;
mod exhaustion;
mod files;
mod keeper;
mod network;
mod secrets;
mod stopping;

use crate::entry::Entry;

const TABLES: &[&[Entry]] = &[
    escape::ENTRIES,
    keeper::ENTRIES,
    network::ENTRIES,
    files::ENTRIES,
    exhaustion::ENTRIES,
    stopping::ENTRIES,
    secrets::ENTRIES,
];

pub(crate) fn all() -> impl Iterator<Item = &'static Entry> {
    TABLES.iter().copied().flatten()
}
