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
    life TEXT NOT NULL,
    server TEXT,
    tool TEXT NOT NULL,
    user_name TEXT,
    caller TEXT,
    arguments TEXT NOT NULL,
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

CREATE TABLE approvals (
    id TEXT PRIMARY KEY NOT NULL,
    call_id BYTEA,
    tool TEXT NOT NULL,
    server TEXT,
    arguments_hash TEXT NOT NULL,
    arguments TEXT NOT NULL,
    user_name TEXT,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    verdict TEXT,
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

CREATE TABLE tool_pins (
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    hash TEXT NOT NULL,
    definition TEXT NOT NULL,
    accepted_at BIGINT NOT NULL,
    pending_hash TEXT,
    pending_definition TEXT,
    pending_seen_at BIGINT,
    PRIMARY KEY (server, tool)
);

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
CREATE INDEX memories_by_channel ON memories (channel, importance, last_accessed_at);

CREATE TABLE settings (
    name TEXT PRIMARY KEY NOT NULL,
    json TEXT NOT NULL
);
