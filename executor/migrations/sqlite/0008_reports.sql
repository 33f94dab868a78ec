-- Who this executor is to a registry: the key that its name and those of sessions are made with.
CREATE TABLE executor (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    identity TEXT NOT NULL
) STRICT;
INSERT INTO executor (one, identity) VALUES (1, lower(hex(randomblob(16))));

-- Whether the registry knows how the run ended, or does not want to. What is over and not reported
-- is reported again, after a restart, too.
ALTER TABLE run ADD COLUMN reported INTEGER NOT NULL DEFAULT 0 CHECK (reported IN (0, 1));
UPDATE run SET reported = 1 WHERE ended_at IS NOT NULL;

CREATE INDEX run_unreported ON run (id) WHERE reported = 0 AND ended_at IS NOT NULL;
