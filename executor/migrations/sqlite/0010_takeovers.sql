-- How often a run was taken over from an executor that was gone, without a step of it having finished
-- in between: one that ends every executor that drives it must not go round for ever.
ALTER TABLE run ADD COLUMN takeovers INTEGER NOT NULL DEFAULT 0;
-- The last event when it was given to an executor.
ALTER TABLE run ADD COLUMN taken_at INTEGER NOT NULL DEFAULT 0;
