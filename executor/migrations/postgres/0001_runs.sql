-- The same tables as in SQLite, where each is explained where it began. Times are milliseconds since
-- 1970. Texts are compared byte by byte (COLLATE "C"), whatever the language of the server is: the
-- order of ids is the order of starting.

-- The clock that leases are measured by: executors on several machines have no other in common.
CREATE FUNCTION now_ms() RETURNS BIGINT LANGUAGE sql VOLATILE
    AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000)::BIGINT $$;

-- Who the executors of this database are to a registry, and the key that they seal with.
CREATE TABLE executor (
    one BIGINT PRIMARY KEY CHECK (one = 1),
    identity TEXT COLLATE "C" NOT NULL,
    -- Tells which key it is, and nothing of the key. Null until the first executor has opened.
    key_id TEXT COLLATE "C"
);
INSERT INTO executor (one, identity) VALUES (1, replace(gen_random_uuid()::text, '-', ''));

CREATE TABLE document (
    digest TEXT COLLATE "C" PRIMARY KEY,
    source BYTEA NOT NULL
);

CREATE TABLE run (
    id TEXT COLLATE "C" PRIMARY KEY,
    status TEXT COLLATE "C" NOT NULL
        CHECK (status IN ('running', 'succeeded', 'failed', 'denied', 'cancelled', 'waiting')),
    name TEXT COLLATE "C" NOT NULL,
    choices TEXT NOT NULL,
    -- The executor that drives the run, until when that holds, and how often the run was given to one.
    owner TEXT COLLATE "C",
    lease_until BIGINT,
    epoch BIGINT NOT NULL,
    cancel_requested BIGINT NOT NULL DEFAULT 0 CHECK (cancel_requested IN (0, 1)),
    idempotency_key TEXT COLLATE "C" UNIQUE,
    request_digest TEXT COLLATE "C" NOT NULL,
    ended_at BIGINT,
    reported BIGINT NOT NULL DEFAULT 0 CHECK (reported IN (0, 1))
)
-- Leases are renewed again and again: room for the new row where the old one was.
WITH (fillfactor = 70);

CREATE INDEX run_under_way ON run (id) WHERE status = 'running';
CREATE INDEX run_ended ON run (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX run_named ON run (name, id);
CREATE INDEX run_unreported ON run (id) WHERE reported = 0 AND ended_at IS NOT NULL;

CREATE TABLE event (
    run TEXT COLLATE "C" NOT NULL REFERENCES run (id),
    seq BIGINT NOT NULL CHECK (seq > 0),
    type TEXT COLLATE "C" NOT NULL,
    event TEXT NOT NULL,
    PRIMARY KEY (run, seq)
);

CREATE TABLE sealed (
    run TEXT COLLATE "C" NOT NULL,
    seq BIGINT NOT NULL,
    key_id TEXT COLLATE "C" NOT NULL,
    nonce BYTEA NOT NULL,
    sealed BYTEA NOT NULL,
    PRIMARY KEY (run, seq),
    FOREIGN KEY (run, seq) REFERENCES event (run, seq)
);

CREATE TABLE exchange (
    run TEXT COLLATE "C" NOT NULL REFERENCES run (id),
    -- A path may be longer than a page of an index has room for.
    step TEXT COLLATE "C" NOT NULL,
    exchange TEXT NOT NULL
);
CREATE UNIQUE INDEX exchange_once ON exchange (run, md5(step));

CREATE TABLE plan (
    id TEXT COLLATE "C" PRIMARY KEY,
    expires_at BIGINT NOT NULL,
    used_by TEXT COLLATE "C",
    key_id TEXT COLLATE "C",
    nonce BYTEA,
    sealed BYTEA
);
CREATE INDEX plan_by_end ON plan (expires_at);

CREATE TABLE state (
    session TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    value TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (session, name)
);

CREATE TABLE credential (
    host TEXT COLLATE "C" NOT NULL,
    scheme TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('api_key', 'basic', 'bearer', 'oauth2')),
    set_at BIGINT NOT NULL,
    key_id TEXT COLLATE "C" NOT NULL,
    nonce BYTEA NOT NULL,
    sealed BYTEA NOT NULL,
    PRIMARY KEY (host, scheme)
);
