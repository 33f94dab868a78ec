-- Credentials for services, each sealed with XChaCha20-Poly1305. Host and scheme are authenticated
-- with what is sealed: a row that is moved to another host does not open.
CREATE TABLE credential (
    -- A host name in lower case, with its port when that is not the usual one.
    host TEXT NOT NULL,
    -- The name of the security scheme in documents.
    scheme TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('api_key', 'basic', 'bearer', 'oauth2')),
    -- Milliseconds since 1970.
    set_at INTEGER NOT NULL,
    -- Tells which key it is, and nothing of the key.
    key_id TEXT NOT NULL,
    nonce BLOB NOT NULL,
    sealed BLOB NOT NULL,
    PRIMARY KEY (host, scheme)
) STRICT, WITHOUT ROWID;
