//! The PHP extension `pillion`: native classes on top of the engine `pillion-core`, which runs in
//! the PHP process, and on top of the client of the sidecar.
//!
//! `library/` declares the same classes in plain PHP, with the doc comments for both. A test
//! compares the library with the extension.
//!
//! - `zend` is the layer on top of Zend's API. Each class is a file in `classes`.
//! - `runtime` owns the state of the process. `wait` lets a PHP thread wait for the runtime without
//!   blocking signals, timeouts and callbacks.
//! - `json` converts between JSON and PHP values.

#![expect(unsafe_code, reason = "Zend's API is C")]

mod chat;
mod classes;
mod context;
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
mod wait;
mod zend;
