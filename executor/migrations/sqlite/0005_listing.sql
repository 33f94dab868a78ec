-- What runs are listed and forgotten by.
ALTER TABLE run ADD COLUMN name TEXT NOT NULL DEFAULT '';
-- Milliseconds since 1970; null while the run is not over.
ALTER TABLE run ADD COLUMN ended_at INTEGER;

UPDATE run SET
    name = COALESCE(
        (SELECT json_extract(event, '$.capability.name') FROM event WHERE event.run = run.id AND seq = 1), ''
    ),
    ended_at = (
        SELECT unixepoch(json_extract(event, '$.at')) * 1000
        FROM event WHERE event.run = run.id AND type = 'run_finished'
    );

CREATE INDEX run_ended ON run (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX run_named ON run (name, id);
