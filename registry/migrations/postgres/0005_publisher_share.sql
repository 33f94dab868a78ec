-- Finds the versions that a token has published.
CREATE INDEX event_actor ON event (actor, action);
