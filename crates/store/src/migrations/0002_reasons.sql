ALTER TABLE approvals ADD COLUMN reason TEXT;
