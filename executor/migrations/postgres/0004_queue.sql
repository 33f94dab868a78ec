-- As in SQLite: whether a run waits until an executor has room for it, and the last turn of each tenant.
ALTER TABLE run ADD COLUMN queued BIGINT NOT NULL DEFAULT 0 CHECK (queued IN (0, 1));

DROP INDEX run_under_way;
CREATE INDEX run_under_way ON run (queued, tenant, id) WHERE status = 'running';

CREATE TABLE turn (
    tenant TEXT COLLATE "C" PRIMARY KEY,
    number BIGINT NOT NULL
);
