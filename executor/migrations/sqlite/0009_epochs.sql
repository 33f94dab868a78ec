-- How often a run was given to an executor. Whoever writes to its journal says which of these times it
-- writes for: an executor whose run was given to another one writes nothing more.
ALTER TABLE run ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
