-- The runs that may use a credential beside the owner's, as JSON. NULL grants nothing: credentials that
-- were stored before this are for the owner's runs alone until somebody grants more.
ALTER TABLE credential ADD COLUMN users TEXT;
