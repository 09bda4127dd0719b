//! The contract of the store, over everything that keeps one, and what happens when it cannot.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, and what it calls may do so too"
)]

mod backends;
mod contract;
mod crash;
mod faults;
mod full_disk;
mod lost_file;
mod other_process;
mod vault;
