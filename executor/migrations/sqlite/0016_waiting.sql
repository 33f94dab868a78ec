-- Runs that wait for a person are counted again and again.
CREATE INDEX run_waiting ON run (id) WHERE status = 'waiting';
