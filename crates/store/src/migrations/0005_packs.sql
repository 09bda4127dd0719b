-- The data of packs: documents by name, and append-only logs.
CREATE TABLE pack_documents (
    pack TEXT NOT NULL,
    name TEXT NOT NULL,
    json TEXT NOT NULL,
    PRIMARY KEY (pack, name)
);

-- latest is the number of the newest entry, latest_at the time when it was added.
CREATE TABLE pack_logs (
    pack TEXT NOT NULL,
    name TEXT NOT NULL,
    latest BIGINT NOT NULL,
    latest_at BIGINT NOT NULL,
    PRIMARY KEY (pack, name)
);
CREATE INDEX pack_logs_by_age ON pack_logs (pack, latest_at);

CREATE TABLE pack_log_entries (
    pack TEXT NOT NULL,
    log TEXT NOT NULL,
    number BIGINT NOT NULL,
    at BIGINT NOT NULL,
    json TEXT NOT NULL,
    PRIMARY KEY (pack, log, number)
);
