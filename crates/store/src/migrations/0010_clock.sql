-- How long the store has been in use, and the readings of the system clock during that time, as
-- JSON in the only row.
CREATE TABLE clock (id BIGINT PRIMARY KEY NOT NULL, json TEXT NOT NULL);
