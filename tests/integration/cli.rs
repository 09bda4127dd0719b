mod mcp;
mod serve;
mod tools;
