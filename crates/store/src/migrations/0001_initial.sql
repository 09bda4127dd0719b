-- For SQLite and Postgres. Times are milliseconds since 1970, booleans are 0 or 1, JSON is text.
-- SQLite has no type BYTEA, and stores bytes in such a column unchanged.

CREATE TABLE servers (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL UNIQUE,
    configuration TEXT NOT NULL,
    enabled BIGINT NOT NULL,
    last_connected_at BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

-- The id begins with the time: ordering by id orders by time, and a time range is an id range.
CREATE TABLE tool_calls (
    id BYTEA PRIMARY KEY NOT NULL,
    owner TEXT NOT NULL,
    run_id TEXT NOT NULL,
    server TEXT,
    tool TEXT NOT NULL,
    user_name TEXT,
    user_is_verified BIGINT NOT NULL DEFAULT 0,
    -- Whose limits apply to a call without a verified user.
    principal TEXT,
    caller TEXT,
    arguments TEXT NOT NULL,
    -- The arguments after their repair, if a model wrote arguments that did not match the tool's schema.
    repaired_arguments TEXT,
    -- The arguments that the approver set in place of the call's own.
    approved_arguments TEXT,
    status TEXT NOT NULL,
    completed_at BIGINT,
    duration_us BIGINT,
    result TEXT,
    error TEXT,
    error_code TEXT,
    parent BYTEA,
    bytes BIGINT NOT NULL
);
CREATE INDEX tool_calls_by_server ON tool_calls (server, id);
CREATE INDEX tool_calls_by_tool ON tool_calls (tool, id);
CREATE INDEX tool_calls_by_user ON tool_calls (user_name, id);
-- Partial: most calls succeed, and queries for successful calls need no index.
CREATE INDEX tool_calls_by_status ON tool_calls (status, id) WHERE status <> 'success';
-- Calls made by another call.
CREATE INDEX tool_calls_by_parent ON tool_calls (parent, id) WHERE parent IS NOT NULL;

-- The newest id up to which calls may have been removed from the call log, in the only row. A call with a greater id that is
-- not in the call log was never recorded.
CREATE TABLE removed_calls (only_row BIGINT PRIMARY KEY NOT NULL, newest BYTEA NOT NULL);

CREATE TABLE approvals (
    id TEXT PRIMARY KEY NOT NULL,
    call_id BYTEA,
    tool TEXT NOT NULL,
    server TEXT,
    arguments_hash TEXT NOT NULL,
    arguments TEXT NOT NULL,
    approved_arguments TEXT,
    user_name TEXT,
    user_is_verified BIGINT NOT NULL DEFAULT 0,
    principal TEXT,
    -- What else the tool gets from the caller.
    channel TEXT,
    forwarded TEXT,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    verdict TEXT,
    reason TEXT,
    decided_by TEXT,
    decided_at BIGINT,
    used_at BIGINT
);
CREATE INDEX approvals_by_creation ON approvals (created_at, id);
CREATE INDEX approvals_by_hash ON approvals (arguments_hash, created_at);
CREATE INDEX approvals_by_call ON approvals (call_id);
CREATE INDEX approvals_by_expiry ON approvals (expires_at);

CREATE TABLE idempotency_keys (
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    result TEXT,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (scope, name)
);
CREATE INDEX idempotency_keys_by_expiry ON idempotency_keys (expires_at);

-- If a server lists its tools per user, a pin belongs to one user; '' means no user.
CREATE TABLE tool_pins (
    server TEXT NOT NULL,
    user_name TEXT NOT NULL,
    tool TEXT NOT NULL,
    hash TEXT NOT NULL,
    definition TEXT NOT NULL,
    accepted_at BIGINT NOT NULL,
    pending_hash TEXT,
    pending_definition TEXT,
    pending_seen_at BIGINT,
    -- The definition that an operator rejected last.
    rejected_hash TEXT,
    PRIMARY KEY (server, user_name, tool)
);

CREATE INDEX tool_pins_pending ON tool_pins (server) WHERE pending_hash IS NOT NULL;

-- The results of a composed tool's finished steps while another step waits for approval.
CREATE TABLE step_checkpoints (
    name TEXT PRIMARY KEY NOT NULL,
    json TEXT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX step_checkpoints_by_expiry ON step_checkpoints (expires_at);

CREATE TABLE secrets (
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    key_id TEXT NOT NULL,
    sealed BYTEA NOT NULL,
    PRIMARY KEY (kind, id)
);

CREATE TABLE access_tokens (
    hash TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL UNIQUE,
    scopes TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    last_used_at BIGINT,
    revoked_at BIGINT
);

-- Searches use content_lower, because SQLite's lower() supports only ASCII.
CREATE TABLE memories (
    id TEXT PRIMARY KEY NOT NULL,
    channel TEXT NOT NULL,
    user_name TEXT,
    category TEXT NOT NULL,
    content TEXT NOT NULL,
    content_lower TEXT NOT NULL,
    importance BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    last_accessed_at BIGINT NOT NULL
);
-- A search reads a user's memories and the shared memories of a channel, not the whole channel.
CREATE INDEX memories_by_reader ON memories (channel, user_name, importance, last_accessed_at);

-- The saved states of chats with models.
CREATE TABLE chats (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    json TEXT NOT NULL,
    revision BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    -- The request that is continuing the chat.
    claimed_by TEXT,
    claimed_until BIGINT,
    -- The chat's entry in lists.
    summary TEXT NOT NULL DEFAULT ''
);
CREATE INDEX chats_of_owners ON chats (owner, updated_at);
CREATE INDEX chats_by_age ON chats (updated_at);

-- The data of packs: documents by name, and append-only logs.
CREATE TABLE pack_documents (
    pack TEXT NOT NULL,
    name TEXT NOT NULL,
    json TEXT NOT NULL,
    PRIMARY KEY (pack, name)
);

-- latest is the number of the newest entry, latest_at the time when it was added.
CREATE TABLE pack_logs (
    pack TEXT NOT NULL,
    name TEXT NOT NULL,
    latest BIGINT NOT NULL,
    latest_at BIGINT NOT NULL,
    PRIMARY KEY (pack, name)
);
CREATE INDEX pack_logs_by_age ON pack_logs (pack, latest_at);

CREATE TABLE pack_log_entries (
    pack TEXT NOT NULL,
    log TEXT NOT NULL,
    number BIGINT NOT NULL,
    at BIGINT NOT NULL,
    json TEXT NOT NULL,
    PRIMARY KEY (pack, log, number)
);

-- How long the store has been in use, and the readings of the system clock during that time, as
-- JSON in the only row.
CREATE TABLE clock (id BIGINT PRIMARY KEY NOT NULL, json TEXT NOT NULL);

CREATE TABLE settings (
    name TEXT PRIMARY KEY NOT NULL,
    json TEXT NOT NULL
);
