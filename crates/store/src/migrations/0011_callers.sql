-- Who makes a call: the principal, and whether it may act for the user. Older calls have a principal only if their user
-- is not verified; whether their other users were verified is unknown.
ALTER TABLE tool_calls ADD COLUMN user_is_verified BIGINT NOT NULL DEFAULT 0;
ALTER TABLE approvals ADD COLUMN user_is_verified BIGINT NOT NULL DEFAULT 0;
ALTER TABLE approvals ADD COLUMN principal TEXT;
-- What else the tool gets from the caller.
ALTER TABLE approvals ADD COLUMN channel TEXT;
ALTER TABLE approvals ADD COLUMN forwarded TEXT;
-- The arguments that the approver set in place of the call's own.
ALTER TABLE approvals ADD COLUMN approved_arguments TEXT;
ALTER TABLE tool_calls ADD COLUMN approved_arguments TEXT;
