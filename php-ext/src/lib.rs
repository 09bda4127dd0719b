//! The PHP extension `pillion`: native classes over the engine of `pillion-core`, in the
//! PHP process, and over the client of the sidecar.
//!
//! `stubs/` describes the classes as PHP sees them; a test holds the two
//! together. Here is how it is made:
//!
//! - `zend` is the layer on Zend's API; each class is a file of `classes`.
//! - `runtime` owns the state of the process, `wait` is how a PHP thread
//!   waits for it without stopping signals, timeouts and callbacks.
//! - `json` turns JSON into PHP values and back.

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
mod php_tool;
mod runtime;
mod settings;
mod signature;
mod switchboard;
mod wait;
mod zend;
