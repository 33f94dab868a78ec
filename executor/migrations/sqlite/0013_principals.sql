-- Plans and remembered values belong to a principal, as runs do (`run.tenant`): the name of a token,
-- or `token/end user`. Plans that wait to be run end within 15 minutes; those made before belong to the
-- owner.
ALTER TABLE plan ADD COLUMN tenant TEXT NOT NULL DEFAULT 'owner';

-- The principal is empty for the values that all principals may use; the session is empty for the values
-- that are in no session. Before, values without a session were those of all runs, and stay so. A value
-- of a session did not name its principal, and belongs to the owner.
CREATE TABLE remembered (
    tenant TEXT NOT NULL,
    session TEXT NOT NULL,
    name TEXT NOT NULL,
    -- JSON.
    value TEXT NOT NULL,
    -- Milliseconds since 1970.
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, session, name)
) STRICT, WITHOUT ROWID;
INSERT INTO remembered (tenant, session, name, value, updated_at)
    SELECT CASE session WHEN '' THEN '' ELSE 'owner' END, session, name, value, updated_at FROM state;
DROP TABLE state;
ALTER TABLE remembered RENAME TO state;
