-- What an embedder gave for a text, so that no text is paid for twice. Derived; the oldest go first.
CREATE TABLE embedding (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    -- SHA-256 of embedder and text.
    key BLOB NOT NULL UNIQUE CHECK (length(key) = 32),
    -- Little-endian floats of four bytes; none when the text means nothing to the embedder.
    vector BLOB NOT NULL
) STRICT;
