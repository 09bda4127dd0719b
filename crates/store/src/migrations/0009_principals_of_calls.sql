-- The principal whose limits apply to a call without a verified user.
ALTER TABLE tool_calls ADD COLUMN principal TEXT;
