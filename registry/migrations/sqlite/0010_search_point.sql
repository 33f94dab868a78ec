-- The search index in the memory of the process has a copy here, so that a start need not make it anew.

-- What the index is, as JSON: with its copy complete. Null when the index is on a server.
ALTER TABLE search_index ADD COLUMN identity TEXT;

-- The points of these indexes. Derived.
CREATE TABLE search_point (
    search_index INTEGER NOT NULL REFERENCES search_index (number) ON DELETE CASCADE,
    capability INTEGER NOT NULL,
    -- The last change when the point was made: an older one never takes its place.
    as_of INTEGER NOT NULL,
    -- Little-endian floats of four bytes; empty when the text means nothing to the embedder.
    dense BLOB NOT NULL,
    -- Hashes of terms (little-endian, four bytes), each with its weight as a float.
    sparse BLOB NOT NULL,
    -- The rest, as JSON.
    facts TEXT NOT NULL,
    PRIMARY KEY (search_index, capability)
) STRICT;
