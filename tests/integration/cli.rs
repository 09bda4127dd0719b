mod man;
mod mcp;
mod mcp_stdio;
mod operations;
mod serve;
mod store;
mod tools;
