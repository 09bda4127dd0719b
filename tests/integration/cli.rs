mod man;
mod mcp;
mod mcp_stdio;
mod serve;
mod tools;
