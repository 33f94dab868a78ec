-- What task steps asked and were answered, for replays. Secrets are masked. Kept as long as the run.
CREATE TABLE exchange (
    run TEXT NOT NULL REFERENCES run (id),
    step TEXT NOT NULL,
    exchange TEXT NOT NULL,
    PRIMARY KEY (run, step)
) STRICT, WITHOUT ROWID;
