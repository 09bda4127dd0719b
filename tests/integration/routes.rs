mod bad_input;
mod fallback;
mod formats;
mod health;
pub mod mcp;
mod openapi;
mod operations;
mod tagged;
mod tools;
