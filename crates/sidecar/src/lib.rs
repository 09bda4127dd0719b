//! The sidecar.
