-- What documents have to do with each other, so that a question across documents need not read
-- them all. Derived from the documents like the search index, and made anew by `a2s reindex`; for
-- versions that were stored before, it is filled in at the start.

-- The capabilities that a version uses. Which version of them it means is for the linker to say.
CREATE TABLE dependency (
    version INTEGER NOT NULL REFERENCES version (id),
    uses TEXT NOT NULL,
    PRIMARY KEY (uses, version)
) STRICT, WITHOUT ROWID;
CREATE INDEX dependency_version ON dependency (version);

-- The hosts that a version talks to.
CREATE TABLE service (
    version INTEGER NOT NULL REFERENCES version (id),
    host TEXT NOT NULL,
    -- What the description of a task calls it.
    title TEXT,
    -- The format of its own tasks there.
    format TEXT,
    UNIQUE (host, version, title, format)
) STRICT;
CREATE INDEX service_version ON service (version);

-- What its callers must hold.
CREATE TABLE permission (
    version INTEGER NOT NULL REFERENCES version (id),
    permission TEXT NOT NULL,
    PRIMARY KEY (version, permission)
) STRICT, WITHOUT ROWID;

-- The names of what it takes and gives, without case and separators.
CREATE TABLE port (
    version INTEGER NOT NULL REFERENCES version (id),
    -- 0 taken, 1 given.
    side INTEGER NOT NULL CHECK (side IN (0, 1)),
    name TEXT NOT NULL,
    PRIMARY KEY (side, name, version)
) STRICT, WITHOUT ROWID;
CREATE INDEX port_version ON port (version);

-- The versions that have such rows.
CREATE TABLE derived (
    version INTEGER PRIMARY KEY REFERENCES version (id),
    -- The rules that they were made by: a change of the rules makes them anew.
    rules INTEGER NOT NULL
) STRICT;

-- Whether a version is the live one is asked for each of its rows.
CREATE INDEX capability_head ON capability (head);
