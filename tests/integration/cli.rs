mod man;
mod mcp;
mod serve;
mod tools;
