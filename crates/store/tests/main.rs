//! Tests the contract of the store with every backend, and the failures of each backend.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, and what it calls may do so too"
)]

use std::fs;
use std::path::{Path, PathBuf};

mod backends;
mod contract;
mod crash;
mod damage;
mod faults;
mod full_disk;
mod lost_file;
mod other_process;
mod vault;

/// Returns the spool files in the directory of a database.
fn spool_files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.to_str().unwrap().contains(".calls-"))
        .collect()
}
