-- The arguments of a call after their repair, if a model wrote arguments that did not match the tool's schema.
ALTER TABLE tool_calls ADD COLUMN repaired_arguments TEXT;
