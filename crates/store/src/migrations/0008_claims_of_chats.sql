-- The request that is continuing a chat, and the chat's entry in lists.
ALTER TABLE chats ADD COLUMN claimed_by TEXT;
ALTER TABLE chats ADD COLUMN claimed_until BIGINT;
ALTER TABLE chats ADD COLUMN summary TEXT NOT NULL DEFAULT '';
