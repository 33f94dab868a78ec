-- The vectors of accepted intents, never their texts. At most one for each reporter and slot, both of which
-- come from keyed hashes.
CREATE TABLE learned (
    capability INTEGER NOT NULL REFERENCES capability (id) ON DELETE CASCADE,
    -- The id of the embedder that has made the vector.
    embedder TEXT NOT NULL,
    reporter INTEGER NOT NULL CHECK (reporter BETWEEN 0 AND 255),
    slot INTEGER NOT NULL,
    -- Little-endian floats of four bytes.
    vector BLOB NOT NULL,
    -- Milliseconds since 1970.
    at INTEGER NOT NULL,
    PRIMARY KEY (capability, embedder, reporter, slot)
) STRICT, WITHOUT ROWID;

-- The mean of these vectors that the index uses. It follows them when they have changed enough.
CREATE TABLE learned_mean (
    capability INTEGER NOT NULL REFERENCES capability (id) ON DELETE CASCADE,
    embedder TEXT NOT NULL,
    vector BLOB NOT NULL,
    PRIMARY KEY (capability, embedder)
) STRICT, WITHOUT ROWID;

-- Set when the index uses these means.
ALTER TABLE registry ADD COLUMN learns INTEGER NOT NULL DEFAULT 0 CHECK (learns IN (0, 1));
