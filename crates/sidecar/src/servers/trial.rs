use std::time::{Duration, Instant};

use pillion_core::mcp::{McpClient, ServerConfig};
use pillion_wire::ServerTrial;
use serde::Deserialize;
use tokio::time::timeout;

/// How long the farewell to the server may take.
const FAREWELL: Duration = Duration::from_secs(2);

/// What counts of a tool here.
#[derive(Deserialize)]
struct Named {
    name: String,
}

/// Asks a server for its tools over a session of its own, within its own timeout.
pub(super) async fn try_out(server: ServerConfig) -> ServerTrial {
    let started = Instant::now();
    let limit = server.timeout;
    let client = McpClient::new(server);
    let asked = timeout(limit, async {
        let tools = client.list_tools().await?;
        let connection = client.connection().await?;
        Ok::<_, pillion_core::mcp::McpError>((tools, connection.server_name()))
    });
    let mut trial = ServerTrial {
        success: true,
        ..ServerTrial::default()
    };
    match asked.await {
        Ok(Ok((tools, name))) => {
            trial.reachable = true;
            trial.server =
                name.map(|(name, version)| format!("{name} {version}").trim().to_owned());
            trial.tools = tools
                .iter()
                .filter_map(|tool| serde_json::from_str::<Named>(tool.get()).ok())
                .map(|tool| tool.name)
                .collect();
        }
        Ok(Err(error)) => trial.error = Some(error.to_string()),
        Err(_) => {
            let seconds = limit.as_secs_f64();
            trial.error = Some(format!(
                "the server did not list its tools within {seconds:.1}s"
            ));
        }
    }
    drop(timeout(FAREWELL, client.disconnect()).await);
    trial.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    trial
}
