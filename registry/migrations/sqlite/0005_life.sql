-- Who may publish, and what became of versions afterwards.

-- What a publisher says of a version that nobody should begin to use: JSON.
ALTER TABLE version ADD COLUMN deprecated TEXT;

-- Tokens by the SHA-256 of what their holders show. The owner's token is not among them.
CREATE TABLE token (
    name TEXT PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
    -- Words, separated by spaces.
    scopes TEXT NOT NULL,
    -- Milliseconds since 1970.
    created_at INTEGER NOT NULL,
    expires_at INTEGER
) STRICT;

-- Who may publish under a name. The names that were there before are the owner's.
CREATE TABLE owner (
    capability INTEGER NOT NULL REFERENCES capability (id),
    subject TEXT NOT NULL,
    PRIMARY KEY (capability, subject)
) STRICT, WITHOUT ROWID;
INSERT INTO owner (capability, subject) SELECT id, 'owner' FROM capability;

-- Everything that was ever changed on purpose, in order, written with the change itself: the audit,
-- and the feed that mirrors follow. Never deleted.
CREATE TABLE event (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    -- Who did it; nobody for what is older than this table.
    actor TEXT,
    action TEXT NOT NULL,
    -- The version that it is about: of names, versions and digests as they were, because that is
    -- what a reader compares with.
    name TEXT,
    version TEXT,
    digest TEXT,
    -- The owner or token that it is about.
    subject TEXT,
    -- JSON.
    detail TEXT
) STRICT;
-- What happened to versions is the feed.
CREATE INDEX event_feed ON event (seq) WHERE digest IS NOT NULL;
CREATE INDEX event_name ON event (name, seq);

-- A mirror that begins now needs what was there before.
INSERT INTO event (at, action, name, version, digest)
SELECT published_at, 'publish', name, version, digest
FROM version JOIN capability ON capability.id = version.capability ORDER BY version.id;
INSERT INTO event (at, action, name, version, digest)
SELECT published_at, 'yank', name, version, digest
FROM version JOIN capability ON capability.id = version.capability WHERE yanked = 1
ORDER BY version.id;
