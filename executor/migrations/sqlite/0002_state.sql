-- What is remembered between runs: for one session, or for all (the session is empty then).
CREATE TABLE state (
    session TEXT NOT NULL,
    name TEXT NOT NULL,
    -- JSON.
    value TEXT NOT NULL,
    -- Milliseconds since 1970.
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (session, name)
) STRICT, WITHOUT ROWID;
