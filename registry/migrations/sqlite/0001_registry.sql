-- Documents are the truth: everything here but `document`, `published_at`, `yanked` and the
-- outcomes is derived from them and only speeds up reading.

-- One row: who this database is, and how far the search index has followed it.
CREATE TABLE registry (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    -- An index made from another database is recognised by this.
    identity TEXT NOT NULL,
    -- The last change that the index has on disk.
    indexed INTEGER NOT NULL
) STRICT;
INSERT INTO registry (one, identity, indexed) VALUES (1, lower(hex(randomblob(16))), 0);

CREATE TABLE capability (
    -- Never used twice, because it is the point in the search index.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    -- The name in kebab-case, which is the id of a hit.
    slug TEXT NOT NULL UNIQUE,
    -- The live version: the newest stable one that is not yanked, else the newest not yanked.
    head INTEGER REFERENCES version (id)
) STRICT;

CREATE TABLE version (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    capability INTEGER NOT NULL REFERENCES capability (id),
    version TEXT NOT NULL,
    digest TEXT NOT NULL CHECK (length(digest) = 71),
    -- 0 low, 1 medium, 2 high.
    complexity INTEGER NOT NULL CHECK (complexity BETWEEN 0 AND 2),
    -- Milliseconds since 1970.
    published_at INTEGER NOT NULL,
    yanked INTEGER NOT NULL DEFAULT 0 CHECK (yanked IN (0, 1)),
    -- Sums of `outcome`.
    runs INTEGER NOT NULL DEFAULT 0,
    successes INTEGER NOT NULL DEFAULT 0,
    faults INTEGER NOT NULL DEFAULT 0,
    UNIQUE (capability, version)
) STRICT;

-- The text of a version as it was published first. A table of its own, so that counting an
-- outcome does not write it again.
CREATE TABLE document (
    version INTEGER PRIMARY KEY REFERENCES version (id),
    source TEXT NOT NULL
) STRICT;

-- What happened to which capability, in order: the index follows it.
CREATE TABLE change (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    capability INTEGER NOT NULL REFERENCES capability (id),
    at INTEGER NOT NULL
) STRICT;

-- One row per run, so that a report which arrives twice counts once.
CREATE TABLE outcome (
    run TEXT PRIMARY KEY,
    version INTEGER NOT NULL REFERENCES version (id),
    success INTEGER NOT NULL CHECK (success IN (0, 1)),
    code TEXT,
    blame TEXT,
    duration_ms INTEGER NOT NULL,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
