-- The newest id up to which calls may have been removed from the call log, in the only row. A call with a greater id that is
-- not in the call log was never recorded. Older calls may have been removed before this table existed.
CREATE TABLE removed_calls (only_row BIGINT PRIMARY KEY NOT NULL, newest BYTEA NOT NULL);
INSERT INTO removed_calls (only_row, newest) SELECT 1, id FROM tool_calls ORDER BY id DESC LIMIT 1;
