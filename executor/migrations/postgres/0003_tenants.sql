-- As in SQLite: who has started a run.
ALTER TABLE run ADD COLUMN tenant TEXT COLLATE "C" NOT NULL DEFAULT 'owner';
