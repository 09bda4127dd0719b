-- A search reads a user's memories and the shared memories of a channel, not the whole channel.
CREATE INDEX memories_by_reader ON memories (channel, user_name, importance, last_accessed_at);
DROP INDEX memories_by_channel;
