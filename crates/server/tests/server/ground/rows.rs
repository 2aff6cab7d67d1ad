//! What stands in the store, read and written past the server.

use pinfold_lifecycle::Timestamp;
use pinfold_store::SqliteStore;

use super::Ground;

impl Ground {
    pub(crate) fn store(&self) -> &SqliteStore {
        &self.service.host().store
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.service.host().clock.now()
    }

    /// As a defective disk or a careless hand would.
    pub(crate) fn spoil(&self, sandbox: &str) {
        let rows = rusqlite::Connection::open(self.data.path().join("store/pinfold.db")).unwrap();
        let spoilt = rows.execute("UPDATE sandboxes SET state = '{\"half\":' WHERE id = ?1", [sandbox]);
        assert_eq!(spoilt, Ok(1));
    }
}
