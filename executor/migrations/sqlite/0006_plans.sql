-- Plans that were shown and can be run, each once. What they were made of is sealed with
-- XChaCha20-Poly1305, and the id is authenticated with it.
CREATE TABLE plan (
    -- SHA-256 of the token: whoever reads this table has no token.
    id TEXT NOT NULL PRIMARY KEY,
    -- Milliseconds since 1970.
    expires_at INTEGER NOT NULL,
    -- The run that it has started. No reference: a plan stays used when its run is forgotten.
    used_by TEXT,
    -- Null as soon as the plan is used or has ended. Tells which key it is, and nothing of the key.
    key_id TEXT,
    nonce BLOB,
    sealed BLOB
) STRICT;

CREATE INDEX plan_by_end ON plan (expires_at);
