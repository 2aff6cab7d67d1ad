//! The tables of the SQLite store, as a list of migrations. A released migration is never edited: a change of the
//! schema is a new migration at the end of the list.

/// `PNFD` in the header of the file, where `file` and other tools look up whose database it is.
pub(crate) const APPLICATION_ID: i64 = 0x504e_4644;

/// Applied in this order. The index in the list, counted from one, is the version of the schema.
pub(crate) const MIGRATIONS: &[&str] = &[FIRST];

// Every change of a sandbox takes the next number of `totals.last_seq` as its version, so a version is never used
// again, not even for a sandbox whose row was deleted and which is found once more. History records take their
// numbers from the same counter: all that is newer than a number is found in both tables by index.
//
// `AUTOINCREMENT` is used wherever a client reads on after a number: a number is never used again, so the client
// misses no row.
const FIRST: &str = "
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- One row: the last number given out, and the sums over all sandboxes.
CREATE TABLE totals (
    id               INTEGER PRIMARY KEY CHECK (id = 1),
    last_seq         INTEGER NOT NULL,
    created          INTEGER NOT NULL,
    destroyed        INTEGER NOT NULL,
    attested         INTEGER NOT NULL,
    pooled           INTEGER NOT NULL,
    memory_mb        INTEGER NOT NULL,
    disk_mb          INTEGER NOT NULL,
    processes        INTEGER NOT NULL,
    deleted          INTEGER NOT NULL, -- of created and destroyed: those whose row is deleted
    deleted_attested INTEGER NOT NULL
);
INSERT INTO totals VALUES (1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);

-- An instance in the warm pool is a row like any other. It is found by its shape while it can be claimed, and is
-- counted as pooled, not as created, until it is claimed or gone.
CREATE TABLE sandboxes (
    id            TEXT PRIMARY KEY,
    version       INTEGER NOT NULL,
    generation    INTEGER NOT NULL,
    owner         TEXT NOT NULL,
    next_deadline INTEGER,
    created_at    INTEGER NOT NULL,
    settled_at    INTEGER,
    instances     INTEGER NOT NULL, -- created so far, strays included
    attested      INTEGER NOT NULL,
    memory_mb     INTEGER NOT NULL,
    disk_mb       INTEGER NOT NULL,
    processes     INTEGER NOT NULL,
    state         TEXT NOT NULL,    -- without its executions, which are rows of their own
    pooled        INTEGER NOT NULL,
    pool_shape    TEXT              -- the shape it can be claimed for
);
CREATE INDEX sandboxes_by_version    ON sandboxes (version);
CREATE INDEX sandboxes_due           ON sandboxes (next_deadline, id) WHERE next_deadline IS NOT NULL;
CREATE INDEX sandboxes_present       ON sandboxes (id) WHERE settled_at IS NULL;
CREATE INDEX sandboxes_by_owner      ON sandboxes (owner) WHERE settled_at IS NULL;
CREATE INDEX sandboxes_settled       ON sandboxes (settled_at) WHERE settled_at IS NOT NULL;
CREATE INDEX sandboxes_by_pool_shape ON sandboxes (pool_shape, id) WHERE pool_shape IS NOT NULL;
CREATE INDEX sandboxes_pooled        ON sandboxes (id) WHERE settled_at IS NULL AND pooled = 1;

-- Apart from the state, since it hardly ever changes: a change of state then rewrites few pages.
CREATE TABLE specs (
    sandbox_id TEXT PRIMARY KEY REFERENCES sandboxes (id) ON DELETE CASCADE,
    spec       TEXT NOT NULL,
    policy     TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE executions (
    seq          INTEGER PRIMARY KEY, -- in the order of arrival
    id           TEXT NOT NULL UNIQUE,
    sandbox_id   TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    ended        INTEGER NOT NULL,
    requested_at INTEGER NOT NULL,
    state        TEXT NOT NULL,
    command      TEXT NOT NULL
);
CREATE INDEX executions_by_sandbox ON executions (sandbox_id, ended);

CREATE TABLE effects (
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    fence      INTEGER NOT NULL,
    node       TEXT NOT NULL,
    deadline   INTEGER NOT NULL,
    effect     TEXT NOT NULL,
    PRIMARY KEY (sandbox_id, fence)
) WITHOUT ROWID;
CREATE INDEX effects_by_node ON effects (node);

CREATE TABLE history (
    seq        INTEGER PRIMARY KEY,
    sandbox_id TEXT NOT NULL,
    at         INTEGER NOT NULL,
    record     TEXT NOT NULL
);
CREATE INDEX history_by_sandbox ON history (sandbox_id);
CREATE INDEX history_by_time    ON history (at);

CREATE TABLE idempotency_keys (
    key        TEXT PRIMARY KEY,
    request    TEXT NOT NULL,
    sandbox_id TEXT NOT NULL,
    expires_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX idempotency_keys_expiring ON idempotency_keys (expires_at);

-- One row for each quota that counts a sandbox, until the sandbox is proven gone.
CREATE TABLE quota_uses (
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    key        TEXT NOT NULL,
    PRIMARY KEY (sandbox_id, key)
) WITHOUT ROWID;
CREATE INDEX quota_uses_by_key ON quota_uses (key);

-- Requests that wait for room, in the order of arrival.
CREATE TABLE queue (
    seq             INTEGER PRIMARY KEY AUTOINCREMENT,
    id              TEXT NOT NULL UNIQUE,
    node            TEXT NOT NULL,
    deadline        INTEGER NOT NULL,
    times_overtaken INTEGER NOT NULL,
    entry           TEXT NOT NULL,
    ended_at        INTEGER,
    outcome         TEXT
);
CREATE INDEX queue_waiting ON queue (seq) WHERE ended_at IS NULL;
CREATE INDEX queue_ended   ON queue (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE nodes (
    id           TEXT PRIMARY KEY,
    host         TEXT NOT NULL,
    boot_id      TEXT NOT NULL,
    pid          INTEGER NOT NULL,
    start_ticks  INTEGER NOT NULL,
    heartbeat_at INTEGER NOT NULL
) WITHOUT ROWID;

-- Text that could not be read and was replaced, kept for operators.
CREATE TABLE unreadable_parts (
    seq        INTEGER PRIMARY KEY,
    sandbox_id TEXT NOT NULL,
    version    INTEGER NOT NULL,
    part       TEXT NOT NULL,
    content    BLOB NOT NULL
);

-- The last transaction of each open connection that writes. After a failed sync it shows whether the transaction is
-- in the database.
CREATE TABLE writers (
    id    INTEGER PRIMARY KEY,
    batch INTEGER NOT NULL,
    seq   INTEGER NOT NULL
);

-- Only the hash of the secret is stored: a copy of the database gives no access.
CREATE TABLE tokens (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    role       TEXT NOT NULL,
    hash       BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) WITHOUT ROWID;

CREATE TABLE audit_log (
    seq    INTEGER PRIMARY KEY AUTOINCREMENT,
    at     INTEGER NOT NULL,
    record TEXT NOT NULL
);
CREATE INDEX audit_log_by_time ON audit_log (at);

-- The node that runs a job holds `current_run` until `held_until`. A node whose run is no longer the current one
-- cannot write its outcome.
CREATE TABLE schedule (
    job         TEXT PRIMARY KEY,
    schedule    TEXT NOT NULL,
    due_at      INTEGER NOT NULL,
    current_run INTEGER,
    holder      TEXT,
    held_until  INTEGER
) WITHOUT ROWID;

CREATE TABLE job_runs (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    job        TEXT NOT NULL,
    node       TEXT NOT NULL,
    due_at     INTEGER, -- null for a run that was requested, not scheduled
    started_at INTEGER NOT NULL,
    ended_at   INTEGER,
    outcome    TEXT
);
CREATE INDEX job_runs_by_job ON job_runs (job, id);

-- One row: the counters since the store was made, and up to which history record they were counted.
CREATE TABLE metric_totals (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    history_seq INTEGER NOT NULL,
    counters    TEXT NOT NULL
);
INSERT INTO metric_totals VALUES (1, 0, '{}');

-- Counters and gauges per minute, and per quarter of an hour for older times.
CREATE TABLE metric_points (
    at       INTEGER NOT NULL, -- when it begins
    step_ms  INTEGER NOT NULL, -- how long it lasts
    counters TEXT NOT NULL,
    gauges   TEXT NOT NULL,
    PRIMARY KEY (at, step_ms)
) WITHOUT ROWID;

CREATE TABLE alerts (
    name    TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    state   TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE alert_history (
    seq   INTEGER PRIMARY KEY AUTOINCREMENT,
    at    INTEGER NOT NULL,
    name  TEXT NOT NULL,
    entry TEXT NOT NULL
);
CREATE INDEX alert_history_by_time ON alert_history (at);

-- One notice to one target. `state_at` is when it is due while it waits, and when it ended after that. The node that
-- sends it has written `claim_id`, and holds it until `claimed_until`.
CREATE TABLE deliveries (
    seq           INTEGER PRIMARY KEY AUTOINCREMENT,
    id            TEXT NOT NULL UNIQUE,
    at            INTEGER NOT NULL,
    name          TEXT NOT NULL,
    target        TEXT NOT NULL,
    notice        TEXT NOT NULL,
    attempts      INTEGER NOT NULL,
    state         TEXT NOT NULL,
    state_at      INTEGER NOT NULL,
    claim_id      TEXT,
    claimed_until INTEGER NOT NULL,
    last_result   TEXT
);
CREATE INDEX deliveries_by_time ON deliveries (at);
CREATE INDEX deliveries_waiting ON deliveries (target, state_at) WHERE state = 'waiting';
CREATE INDEX deliveries_claimed ON deliveries (claim_id) WHERE claim_id IS NOT NULL;
";
