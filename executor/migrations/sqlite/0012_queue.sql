-- Whether a run waits until an executor has room for it: it is under way then, and nobody has begun it.
ALTER TABLE run ADD COLUMN queued INTEGER NOT NULL DEFAULT 0 CHECK (queued IN (0, 1));

-- What is begun, how much of it each tenant has, and who waits.
DROP INDEX run_under_way;
CREATE INDEX run_under_way ON run (queued, tenant, id) WHERE status = 'running';

-- The last turn of each tenant whose runs have waited: a greater number is a later one.
CREATE TABLE turn (
    tenant TEXT NOT NULL PRIMARY KEY,
    number INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
