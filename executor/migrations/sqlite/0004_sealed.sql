-- What the events of a run do not tell: secret inputs, and outputs with secrets in them. Each is
-- sealed with XChaCha20-Poly1305, and run and number of the event are authenticated with it. Kept
-- until the run is over.
CREATE TABLE sealed (
    run TEXT NOT NULL,
    seq INTEGER NOT NULL,
    -- Tells which key it is, and nothing of the key.
    key_id TEXT NOT NULL,
    nonce BLOB NOT NULL,
    sealed BLOB NOT NULL,
    PRIMARY KEY (run, seq),
    FOREIGN KEY (run, seq) REFERENCES event (run, seq)
) STRICT, WITHOUT ROWID;
