//! The sidecar.
pub mod config;
