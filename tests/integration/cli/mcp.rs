//! `pillion mcp`.

mod bad_input;
mod call;
mod credentials;
mod faults;
mod interrupt;
mod list;
mod oauth;
mod peers;
mod probe;
mod read;
mod stdio;
mod terminal;

use crate::prelude::*;

/// Returns `pillion mcp ...` with an empty environment.
pub fn mcp(arguments: &[&str]) -> Output {
    mcp_with(arguments, &[])
}

/// Returns `pillion mcp ...` with these variables.
pub fn mcp_with(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    run(&[&["mcp"], arguments].concat(), variables)
}
