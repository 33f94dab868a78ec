-- How far a search index is, is a number of that index, not of the database: several can follow it.

-- The search indexes that were made from this database.
CREATE TABLE search_index (
    -- Grows; the oldest are forgotten.
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    -- What the index is called here; it knows its name, too.
    id TEXT NOT NULL UNIQUE,
    -- The last change that it has on disk.
    indexed INTEGER NOT NULL
) STRICT;

-- The index that this was about does not know its name, and is made anew.
ALTER TABLE registry DROP COLUMN indexed;
