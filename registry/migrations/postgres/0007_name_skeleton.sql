-- The forms by which names that look alike are found. The database derives them, so they also exist for
-- names of before, and for those that an older program adds.

-- Equal for names that differ only in case.
ALTER TABLE capability ADD COLUMN lower_name TEXT COLLATE "C" GENERATED ALWAYS AS (lower(name)) STORED;
-- One common letter for letters that look alike: `CapabilityName::to_skeleton` in SQL.
ALTER TABLE capability ADD COLUMN skeleton TEXT COLLATE "C" GENERATED ALWAYS AS (
    replace(lower(translate(name, '1I0', 'llo')), 'rn', 'm')
) STORED;
CREATE INDEX capability_lower_name ON capability (lower_name);
CREATE INDEX capability_skeleton ON capability (skeleton);
