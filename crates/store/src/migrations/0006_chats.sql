-- The saved states of chats with models.
CREATE TABLE chats (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    json TEXT NOT NULL,
    revision BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX chats_of_owners ON chats (owner, updated_at);
CREATE INDEX chats_by_age ON chats (updated_at);
