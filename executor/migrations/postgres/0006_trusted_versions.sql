-- As in SQLite: the checksum that each version had when this database first ran or planned it. Another
-- checksum is refused until an administrator accepts it.
CREATE TABLE trusted_version (
    name TEXT COLLATE "C" NOT NULL,
    version TEXT COLLATE "C" NOT NULL,
    checksum TEXT NOT NULL,
    remembered_at BIGINT NOT NULL,
    accepted_by TEXT,
    PRIMARY KEY (name, version)
);
