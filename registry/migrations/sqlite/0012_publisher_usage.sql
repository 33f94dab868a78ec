-- The versions that a publisher has published and the size of their documents, so that a publish counts only
-- the events since the last one. Derived from `event`; a row may be missing or old.
CREATE TABLE publisher_usage (
    subject TEXT PRIMARY KEY,
    -- The last event that is counted.
    counted INTEGER NOT NULL,
    versions INTEGER NOT NULL,
    bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
