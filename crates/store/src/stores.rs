//! All stores of one database.

use crate::{AlertStore, AuditLog, JobSchedule, MetricStore, Store, TokenStore};

/// A database that keeps everything Pinfold stores. Code that needs one part takes that part's trait.
pub trait Stores: Store + TokenStore + AuditLog + JobSchedule + MetricStore + AlertStore {}

impl<T: Store + TokenStore + AuditLog + JobSchedule + MetricStore + AlertStore> Stores for T {}
