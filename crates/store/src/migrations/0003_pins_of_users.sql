-- If a server lists its tools per user, a pin belongs to one user; '' means no user.
CREATE TABLE tool_pins_of_users (
    server TEXT NOT NULL,
    user_name TEXT NOT NULL,
    tool TEXT NOT NULL,
    hash TEXT NOT NULL,
    definition TEXT NOT NULL,
    accepted_at BIGINT NOT NULL,
    pending_hash TEXT,
    pending_definition TEXT,
    pending_seen_at BIGINT,
    PRIMARY KEY (server, user_name, tool)
);
INSERT INTO tool_pins_of_users
    SELECT server, '', tool, hash, definition, accepted_at,
        pending_hash, pending_definition, pending_seen_at
    FROM tool_pins;
DROP TABLE tool_pins;
ALTER TABLE tool_pins_of_users RENAME TO tool_pins;
