//! The client with servers that it starts, over their standard streams.

mod configuration;
mod crashes;
mod detection;
mod leaks;
mod messages;
mod process_end;

use pillion_mcp_client::StdioCommand;
use pillion_testkit::fake_stdio;

use super::*;
use crate::processes::exists;

/// Returns a client of the misbehaving server with these flags.
fn fake(flags: &[&str]) -> McpClient {
    McpClient::new(fake_config(flags))
}

fn fake_config(flags: &[&str]) -> ServerConfig {
    let (program, args) = fake_stdio(flags);
    let mut command = StdioCommand::new(program);
    command.args = args;
    let mut config = ServerConfig::for_command("fake", command);
    config.timeout = Duration::from_secs(30);
    config
}

/// Returns the answer of a tool of the misbehaving server.
async fn call(client: &McpClient, name: &str, arguments: Value) -> Value {
    let result = client.call_tool(name, &arguments).await.unwrap();
    serde_json::from_str(result.get()).unwrap()
}

/// Returns the process ID of the server.
async fn pid(client: &McpClient) -> u64 {
    let state = call(client, "state", json!({})).await;
    state["pid"].as_u64().unwrap()
}
