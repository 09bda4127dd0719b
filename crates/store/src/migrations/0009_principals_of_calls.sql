-- Whose limits a call counts towards that names no verified user.
ALTER TABLE tool_calls ADD COLUMN principal TEXT;
