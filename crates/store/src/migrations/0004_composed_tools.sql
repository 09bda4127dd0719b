-- Calls that another call has made.
CREATE INDEX tool_calls_by_parent ON tool_calls (parent, id) WHERE parent IS NOT NULL;
-- What finished steps of a composed tool came to while another waits for an approval.
CREATE TABLE kept_steps (
    name TEXT PRIMARY KEY NOT NULL,
    json TEXT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX kept_steps_by_expiry ON kept_steps (expires_at);
