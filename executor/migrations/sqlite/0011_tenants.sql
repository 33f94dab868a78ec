-- Who has started a run: the name that its caller's token stands for.
ALTER TABLE run ADD COLUMN tenant TEXT NOT NULL DEFAULT 'owner';
