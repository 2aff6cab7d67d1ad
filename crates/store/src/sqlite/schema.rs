//! The tables of the embedded store, as the list of migrations that made them. A migration that was ever
//! released is never edited: another one is added.

/// `PNFD`, where `file` and others look for whose database this is.
pub(super) const APPLICATION_ID: i64 = 0x504e_4644;

/// In their order; the place in the list, counted from one, is the version of the schema.
pub(super) const MIGRATIONS: &[&str] =
    &[FIRST, WARM_POOL, TRIES, TOKENS, AUDIT, CHORES, MEASURES, ALERTS, QUOTAS, QUEUE];

// Every change of a sandbox takes the next number of the one row in `ledger` as its version, so a version is
// never used again, not even for a sandbox that is forgotten and found once more. Records of history take
// their numbers from the same row: what is newer than a number is found in both tables by index.
const FIRST: &str = "
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE ledger (
    one           INTEGER PRIMARY KEY CHECK (one = 1),
    seq           INTEGER NOT NULL,
    created       INTEGER NOT NULL,
    destroyed     INTEGER NOT NULL,
    attested      INTEGER NOT NULL,
    memory_mb     INTEGER NOT NULL,
    disk_mb       INTEGER NOT NULL,
    processes     INTEGER NOT NULL,
    gone          INTEGER NOT NULL, -- of created and destroyed: those whose row is deleted
    gone_attested INTEGER NOT NULL
);
INSERT INTO ledger VALUES (1, 0, 0, 0, 0, 0, 0, 0, 0, 0);

CREATE TABLE sandboxes (
    id            TEXT PRIMARY KEY,
    version       INTEGER NOT NULL,
    generation    INTEGER NOT NULL,
    owner         TEXT NOT NULL,
    next_deadline INTEGER,
    created_at    INTEGER NOT NULL,
    settled_at    INTEGER,
    bodies        INTEGER NOT NULL, -- created so far, strays included
    attested      INTEGER NOT NULL,
    memory_mb     INTEGER NOT NULL,
    disk_mb       INTEGER NOT NULL,
    processes     INTEGER NOT NULL,
    state         TEXT NOT NULL     -- without its executions, which are rows of their own
);
CREATE INDEX sandboxes_by_version ON sandboxes (version);
CREATE INDEX sandboxes_due        ON sandboxes (next_deadline, id) WHERE next_deadline IS NOT NULL;
CREATE INDEX sandboxes_present    ON sandboxes (id) WHERE settled_at IS NULL;
CREATE INDEX sandboxes_by_owner   ON sandboxes (owner) WHERE settled_at IS NULL;
CREATE INDEX sandboxes_settled    ON sandboxes (settled_at) WHERE settled_at IS NOT NULL;

-- What never changes is apart, so that a change of state is a change of few pages.
CREATE TABLE specs (
    sandbox_id TEXT PRIMARY KEY REFERENCES sandboxes (id) ON DELETE CASCADE,
    spec       TEXT NOT NULL,
    policy     TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE executions (
    n          INTEGER PRIMARY KEY, -- in the order of arrival
    id         TEXT NOT NULL UNIQUE,
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    ended      INTEGER NOT NULL,
    asked_at   INTEGER NOT NULL,
    state      TEXT NOT NULL,
    command    TEXT NOT NULL
);
CREATE INDEX executions_by_sandbox ON executions (sandbox_id, ended);

CREATE TABLE effects (
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    ticket     INTEGER NOT NULL,
    node       TEXT NOT NULL,
    deadline   INTEGER NOT NULL,
    effect     TEXT NOT NULL,
    PRIMARY KEY (sandbox_id, ticket)
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

CREATE TABLE nodes (
    id           TEXT PRIMARY KEY,
    host         TEXT NOT NULL,
    boot_id      TEXT NOT NULL,
    pid          INTEGER NOT NULL,
    started      INTEGER NOT NULL,
    heartbeat_at INTEGER NOT NULL
) WITHOUT ROWID;

-- What could not be read and was written over, for operators.
CREATE TABLE unreadable (
    n          INTEGER PRIMARY KEY,
    sandbox_id TEXT NOT NULL,
    version    INTEGER NOT NULL,
    was        TEXT NOT NULL,
    text       BLOB NOT NULL
);

-- The last transaction of each open connection that writes: after a failed sync it tells what holds.
CREATE TABLE writers (
    id    INTEGER PRIMARY KEY,
    batch INTEGER NOT NULL,
    seq   INTEGER NOT NULL
);
";

// A body that waits in the pool is a row like any other, but no sandbox yet: it is found by its shape as long as it
// may be claimed, and summed apart until it is given out or gone.
const WARM_POOL: &str = "
ALTER TABLE ledger ADD COLUMN pooled INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN pooled INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN waits_in TEXT; -- the shape it may be claimed for
CREATE INDEX sandboxes_waiting ON sandboxes (waits_in, id) WHERE waits_in IS NOT NULL;
CREATE INDEX sandboxes_pooled  ON sandboxes (id) WHERE settled_at IS NULL AND pooled = 1;
";

// A state may wait between two tries, and an execution carries its earlier ones in its own. No table differs; but a
// program that does not know of this would take such a row for damaged, so it has to find the schema newer than itself.
const TRIES: &str = "-- states may wait between two tries\n";

// Only a hash of what is shown is kept: who reads the store cannot get in with it.
const TOKENS: &str = "
CREATE TABLE tokens (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    role       TEXT NOT NULL,
    hash       BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) WITHOUT ROWID;
";

// Numbers are never used again, so that who reads on after one misses nothing.
const AUDIT: &str = "
CREATE TABLE audit (
    seq  INTEGER PRIMARY KEY AUTOINCREMENT,
    at   INTEGER NOT NULL,
    note TEXT NOT NULL
);
CREATE INDEX audit_by_time ON audit (at);
";

// Who is at a chore holds the number of its run, for so long: a number that is not there any more writes nothing.
const CHORES: &str = "
CREATE TABLE chores (
    name       TEXT PRIMARY KEY,
    schedule   TEXT NOT NULL,
    due_at     INTEGER NOT NULL,
    run        INTEGER, -- the one under way
    held_by    TEXT,
    held_until INTEGER
) WITHOUT ROWID;

CREATE TABLE chore_runs (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    chore    TEXT NOT NULL,
    node     TEXT NOT NULL,
    due_at   INTEGER, -- null where somebody asked for it
    began_at INTEGER NOT NULL,
    ended_at INTEGER,
    came_to  TEXT
);
CREATE INDEX chore_runs_by_chore ON chore_runs (chore, id);
";

// What was ever counted with the place in the history up to which it was, and what was counted and seen in each minute
// or quarter of an hour.
const MEASURES: &str = "
CREATE TABLE counted (
    one  INTEGER PRIMARY KEY CHECK (one = 1),
    seq  INTEGER NOT NULL,
    sums TEXT NOT NULL
);
INSERT INTO counted VALUES (1, 0, '{}');

CREATE TABLE measured (
    at     INTEGER NOT NULL, -- when it begins
    step   INTEGER NOT NULL, -- how long it lasts, in milliseconds
    sums   TEXT NOT NULL,
    gauges TEXT NOT NULL,
    PRIMARY KEY (at, step)
) WITHOUT ROWID;
";

// A delivery is one notice to one target. Its `moment` is when it is next due while it waits, and when it was settled
// after that; whoever has it in hands is named by `claim` until `claimed_until`.
const ALERTS: &str = "
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

CREATE TABLE deliveries (
    seq           INTEGER PRIMARY KEY AUTOINCREMENT,
    id            TEXT NOT NULL UNIQUE,
    at            INTEGER NOT NULL,
    name          TEXT NOT NULL,
    target        TEXT NOT NULL,
    notice        TEXT NOT NULL,
    attempts      INTEGER NOT NULL,
    state         TEXT NOT NULL,
    moment        INTEGER NOT NULL,
    claim         TEXT,
    claimed_until INTEGER NOT NULL,
    last          TEXT
);
CREATE INDEX deliveries_by_time  ON deliveries (at);
CREATE INDEX deliveries_waiting  ON deliveries (target, moment) WHERE state = 'waiting';
CREATE INDEX deliveries_claimed  ON deliveries (claim) WHERE claim IS NOT NULL;
";

// One row for each thing that a sandbox is counted by, as long as it is not proven gone.
const QUOTAS: &str = "
CREATE TABLE quota_uses (
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    key        TEXT NOT NULL,
    PRIMARY KEY (sandbox_id, key)
) WITHOUT ROWID;
CREATE INDEX quota_uses_by_key ON quota_uses (key);
INSERT INTO quota_uses
    SELECT s.id, json_object('label', json_object('name', l.key, 'value', l.value))
    FROM sandboxes s JOIN specs p ON p.sandbox_id = s.id,
    json_each(CASE WHEN json_valid(p.spec) THEN p.spec ELSE '{}' END, '$.labels') l
    WHERE s.settled_at IS NULL;
";

// Places are numbered in the order of arrival, and a number is never used again.
const QUEUE: &str = "
CREATE TABLE queue (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    id       TEXT NOT NULL UNIQUE,
    node     TEXT NOT NULL,
    until    INTEGER NOT NULL,
    passed   INTEGER NOT NULL,
    place    TEXT NOT NULL,
    ended_at INTEGER,
    ended    TEXT
);
CREATE INDEX queue_waiting ON queue (seq) WHERE ended_at IS NULL;
CREATE INDEX queue_ended   ON queue (ended_at) WHERE ended_at IS NOT NULL;
";
