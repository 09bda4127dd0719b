//! The PHP extension `pillion`: native classes on top of the engine `pillion-core`, which runs in
//! the PHP process, and on top of the client of the sidecar.
//!
//! `library/` declares the same classes in plain PHP, with the doc comments for both. A test
//! compares the library with the extension.
//!
//! A module imports only modules above it in this list, which `scripts/check-dependencies` checks:
//!
//! - `zend` is the layer on top of Zend's API.
//! - `json` converts between JSON and PHP values. `log` writes to PHP's error log, `settings` reads
//!   the ini settings, and `exception` has the exceptions.
//! - `duration`, `model` and `context` read arguments that several classes have.
//! - `signature` derives a tool's definition from PHP code.
//! - `values` has the classes of calls, results, definitions and events.
//! - `runtime` owns the tokio runtime of the process. `wait` lets a PHP thread wait for work on the
//!   runtime without blocking signals, timeouts and callbacks.
//! - `mcp` has the connections to MCP servers, `mcp_server` their tools, and `clients` the classes
//!   of MCP clients.
//! - `tools` has the classes of tools and the state of a registry, and `execution` runs calls.
//! - `chat` runs chats, in this process or in the sidecar.
//! - `classes` has all other classes, one per file, and registers all classes.
//! - `module` starts and ends the extension.

#![expect(unsafe_code, reason = "Zend's API is C")]

mod chat;
mod classes;
mod clients;
mod context;
mod duration;
mod exception;
mod execution;
mod json;
mod log;
mod mcp;
mod mcp_server;
mod model;
mod module;
mod runtime;
mod settings;
mod signature;
mod tools;
mod values;
mod wait;
mod zend;
