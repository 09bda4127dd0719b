-- Calls made by another call.
CREATE INDEX tool_calls_by_parent ON tool_calls (parent, id) WHERE parent IS NOT NULL;
-- The results of a composed tool's finished steps while another step waits for approval.
CREATE TABLE step_checkpoints (
    name TEXT PRIMARY KEY NOT NULL,
    json TEXT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX step_checkpoints_by_expiry ON step_checkpoints (expires_at);
