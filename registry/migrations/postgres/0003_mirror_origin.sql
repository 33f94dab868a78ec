-- The registry that a mirror has copied a name or a version from; none for what was published here. What a
-- mirror copied before this migration counts as published here.
ALTER TABLE capability ADD COLUMN origin TEXT COLLATE "C";
ALTER TABLE version ADD COLUMN origin TEXT COLLATE "C";
