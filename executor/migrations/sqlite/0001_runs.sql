-- Documents that runs use, by digest, as the registry sent them: a run can be resumed without
-- the registry, and what is resumed is what was started.
CREATE TABLE document (
    digest TEXT NOT NULL PRIMARY KEY,
    source BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- One row per run. All that can be told about a run stands in its events; this row holds what
-- must be found by another key, or decides who drives it.
CREATE TABLE run (
    -- UUIDv7 with hyphens: the order of ids is the order of starting.
    id TEXT NOT NULL PRIMARY KEY,
    status TEXT NOT NULL
        CHECK (status IN ('running', 'succeeded', 'failed', 'denied', 'cancelled', 'waiting')),
    -- JSON: which document each dependency of each document means.
    choices TEXT NOT NULL,
    -- The executor that drives the run, and until when that holds (milliseconds since 1970).
    owner TEXT,
    lease_until INTEGER,
    cancel_requested INTEGER NOT NULL DEFAULT 0 CHECK (cancel_requested IN (0, 1)),
    idempotency_key TEXT UNIQUE,
    request_digest TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX run_under_way ON run (id) WHERE status = 'running';

-- The journal: one gapless sequence per run.
CREATE TABLE event (
    run TEXT NOT NULL REFERENCES run (id),
    seq INTEGER NOT NULL CHECK (seq > 0),
    type TEXT NOT NULL,
    event TEXT NOT NULL,
    PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;
