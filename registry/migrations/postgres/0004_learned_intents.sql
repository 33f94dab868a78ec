-- The vectors of accepted intents, never their texts. At most one for each reporter and slot, both of which
-- come from keyed hashes.
CREATE TABLE learned (
    capability BIGINT NOT NULL REFERENCES capability (id) ON DELETE CASCADE,
    -- The id of the embedder that has made the vector.
    embedder TEXT COLLATE "C" NOT NULL,
    reporter BIGINT NOT NULL CHECK (reporter BETWEEN 0 AND 255),
    slot BIGINT NOT NULL,
    -- Little-endian floats of four bytes.
    vector BYTEA NOT NULL,
    -- Milliseconds since 1970.
    at BIGINT NOT NULL,
    PRIMARY KEY (capability, embedder, reporter, slot)
);

-- The mean of these vectors that the index uses. It follows them when they have changed enough.
CREATE TABLE learned_mean (
    capability BIGINT NOT NULL REFERENCES capability (id) ON DELETE CASCADE,
    embedder TEXT COLLATE "C" NOT NULL,
    vector BYTEA NOT NULL,
    PRIMARY KEY (capability, embedder)
);

-- Set when the index uses these means.
ALTER TABLE registry ADD COLUMN learns BOOLEAN NOT NULL DEFAULT FALSE;
