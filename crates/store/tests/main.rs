//! Tests the contract of the store with every backend, and the failures of each backend.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, and what it calls may do so too"
)]

mod backends;
mod contract;
mod crash;
mod damage;
mod faults;
mod full_disk;
mod lost_file;
mod other_process;
mod vault;
