-- As in SQLite: plans and remembered values belong to a principal. Values of sessions did not name theirs
-- and belong to the owner; values without a session stay those of all principals.
ALTER TABLE plan ADD COLUMN tenant TEXT COLLATE "C" NOT NULL DEFAULT 'owner';

ALTER TABLE state ADD COLUMN tenant TEXT COLLATE "C" NOT NULL DEFAULT 'owner';
UPDATE state SET tenant = '' WHERE session = '';
ALTER TABLE state ALTER COLUMN tenant DROP DEFAULT;
ALTER TABLE state DROP CONSTRAINT state_pkey;
ALTER TABLE state ADD PRIMARY KEY (tenant, session, name);
