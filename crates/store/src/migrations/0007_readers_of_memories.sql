-- A search reads a user's memories of a channel and the shared ones, not all of the channel.
CREATE INDEX memories_by_reader ON memories (channel, user_name, importance, last_accessed_at);
DROP INDEX memories_by_channel;
