-- Outcomes that are remembered for a time, and sums of them that are kept.

-- What the runs of a version weigh, of the moment `weighed_at` (milliseconds since 1970): old runs
-- weigh less, and those of one executor only so much.
ALTER TABLE version ADD COLUMN good REAL NOT NULL DEFAULT 0;
ALTER TABLE version ADD COLUMN bad REAL NOT NULL DEFAULT 0;
ALTER TABLE version ADD COLUMN used REAL NOT NULL DEFAULT 0;
ALTER TABLE version ADD COLUMN weighed_at INTEGER NOT NULL DEFAULT 0;
-- How many permissions a caller must hold. No document could ask for any before.
ALTER TABLE version ADD COLUMN permissions INTEGER NOT NULL DEFAULT 0;
-- When the last run ended.
ALTER TABLE version ADD COLUMN last_run INTEGER;

-- What each executor has reported of a version, of the moment `at`. Executors are told apart by a
-- keyed hash of one byte, so there are at most 256 rows for a version.
CREATE TABLE reporter (
    version INTEGER NOT NULL REFERENCES version (id),
    reporter INTEGER NOT NULL CHECK (reporter BETWEEN 0 AND 255),
    -- JSON: by session, the weights of successes, faults and all runs.
    sessions TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (version, reporter)
) STRICT, WITHOUT ROWID;

-- How often a version failed in one way. Empty texts stand for what was not told.
CREATE TABLE failure (
    version INTEGER NOT NULL REFERENCES version (id),
    code TEXT NOT NULL,
    class TEXT NOT NULL,
    blame TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (version, code, class, blame)
) STRICT, WITHOUT ROWID;

-- How long successful runs of a version took: the counts of a histogram, as JSON.
CREATE TABLE latency (
    version INTEGER PRIMARY KEY REFERENCES version (id),
    histogram TEXT NOT NULL
) STRICT;

-- What was there before goes on to count, as what one session of one executor has told.
INSERT INTO failure (version, code, class, blame, count)
SELECT version, CASE WHEN code GLOB 'A2S[0-9][0-9][0-9]' THEN code ELSE '' END, '',
       coalesce(blame, ''), count(*)
FROM outcome WHERE success = 0 GROUP BY 1, 2, 4;

UPDATE version SET last_run = (SELECT max(at) FROM outcome WHERE outcome.version = version.id);
UPDATE version SET
    good = successes * min(1.0, 8.0 / (successes + faults)),
    bad = faults * min(1.0, 8.0 / (successes + faults)),
    weighed_at = coalesce(last_run, 0)
WHERE 0 < successes + faults;
UPDATE version SET used = min(runs, 8.0), weighed_at = coalesce(last_run, 0) WHERE 0 < runs;
INSERT INTO reporter (version, reporter, sessions, at)
SELECT id, 0, json_array(json_array(good, bad, used)), weighed_at FROM version WHERE 0 < runs;

-- Numbered, so that the oldest can be forgotten: a run is known for as long as its row is here.
ALTER TABLE outcome RENAME TO outcome_before;
CREATE TABLE outcome (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    run TEXT NOT NULL UNIQUE,
    version INTEGER NOT NULL REFERENCES version (id),
    -- When it was reported, in milliseconds since 1970.
    at INTEGER NOT NULL
) STRICT;
INSERT INTO outcome (run, version, at) SELECT run, version, at FROM outcome_before ORDER BY at, run;
DROP TABLE outcome_before;
