-- Who goes on with a chat now, and what a list shows of it.
ALTER TABLE chats ADD COLUMN claimed_by TEXT;
ALTER TABLE chats ADD COLUMN claimed_until BIGINT;
ALTER TABLE chats ADD COLUMN summary TEXT NOT NULL DEFAULT '';
