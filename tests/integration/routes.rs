mod bad_input;
mod fallback;
mod health;
mod mcp;
mod openapi;
mod operations;
mod tools;
