-- As in SQLite: how often a run was taken over without a step of it having finished in between, and its
-- last event when it was given to an executor.
ALTER TABLE run ADD COLUMN takeovers BIGINT NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN taken_at BIGINT NOT NULL DEFAULT 0;
