//! Integration tests of all interfaces. Each module covers a route, a command or a part of the
//! sidecar.
//!
//! Modules that several tests use, most of them in `prelude`: `sidecar` runs a sidecar inside the
//! test process, and `program` runs the real binary; `http` sends raw requests, `json_lines`
//! upgrades connections, and `event_stream` reads events; `mcp_server` and `hostile_server` are
//! upstream servers; `reload` changes a configuration; `assertions` has macros and checks of
//! values.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, and what it calls may do so too"
)]

#[macro_use]
mod assertions;

mod approvals;
mod bad_configurations;
mod builtins;
mod cache;
mod chat;
mod cli;
mod clock;
mod composed_tools;
mod config;
mod core_dumps;
mod crowd;
mod event_stream;
mod events;
mod executors;
mod expensive_schemas;
mod hostile_server;
mod http;
mod http_tools;
mod huge_lists;
mod idempotency;
mod json_lines;
mod kills;
mod large_results;
mod limits;
mod log_lines;
mod many_values;
mod mcp;
mod mcp_server;
mod name_owners;
mod packs;
mod peers;
mod pins;
mod prelude;
mod processes;
mod program;
mod proxies;
mod reload;
mod routes;
mod server_texts;
mod servers;
mod shutdown;
mod sidecar;
mod socket;
mod stalled_store;
mod start;
mod store_file;
mod stored_json;
mod take_over;
mod tcp;
mod telemetry;
mod terminal;
mod too_large;
mod tool_calls;
mod upstream;
mod upstream_closes;
mod upstream_faults;
mod upstream_programs;
mod wasm_tools;
mod workers;
