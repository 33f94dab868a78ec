-- The versions that a publisher has published and the size of their documents, so that a publish counts only
-- the events since the last one. Derived from `event`; a row may be missing or old.
CREATE TABLE publisher_usage (
    subject TEXT COLLATE "C" PRIMARY KEY,
    -- The last event that is counted.
    counted BIGINT NOT NULL,
    versions BIGINT NOT NULL,
    bytes BIGINT NOT NULL
);
CREATE INDEX event_publisher ON event (actor, seq) WHERE action = 'publish';
