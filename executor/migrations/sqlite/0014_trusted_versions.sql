-- The checksum that each version had when this database first ran or planned it. Another checksum is
-- refused until an administrator accepts it.
CREATE TABLE trusted_version (
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    -- As text: sha256:….
    checksum TEXT NOT NULL,
    -- Milliseconds since 1970.
    remembered_at INTEGER NOT NULL,
    -- The principal who accepted it. NULL: it is the first that was seen.
    accepted_by TEXT,
    PRIMARY KEY (name, version)
) STRICT, WITHOUT ROWID;
