use std::time::{Duration, Instant};

use pillion_deadline::timeout;
use pillion_mcp_client::{McpClient, ServerConfig};
use pillion_wire::ServerTrial;
use serde::Deserialize;

/// Maximum time for ending the session with the server.
const SESSION_CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The `name` of a listed tool; other members are ignored.
#[derive(Deserialize)]
struct TrialTool {
    name: String,
}

/// Lists a server's tools in a separate session, within the server's timeout.
pub(super) async fn run_trial(server: ServerConfig) -> ServerTrial {
    let started_at = Instant::now();
    let list_timeout = server.timeout;
    let client = McpClient::new(server);
    let request = timeout(list_timeout, async {
        let tools = client.list_tools().await?;
        let connection = client.connection().await?;
        Ok::<_, pillion_mcp_client::McpError>((tools, connection.server_name()))
    });
    let mut trial = ServerTrial {
        success: true,
        ..ServerTrial::default()
    };
    match request.await {
        Ok(Ok((tools, name))) => {
            trial.reachable = true;
            trial.server =
                name.map(|(name, version)| format!("{name} {version}").trim().to_owned());
            trial.tools = tools
                .iter()
                .filter_map(|tool| serde_json::from_str::<TrialTool>(tool.get()).ok())
                .map(|tool| tool.name)
                .collect();
        }
        Ok(Err(error)) => trial.error = Some(error.to_string()),
        Err(_) => {
            let seconds = list_timeout.as_secs_f64();
            let error = format!("the server did not list its tools within {seconds:.1}s");
            trial.error = Some(error);
        }
    }
    drop(timeout(SESSION_CLOSE_TIMEOUT, client.disconnect()).await);
    trial.duration_ms = u64::try_from(started_at.elapsed().as_millis()).unwrap_or(u64::MAX);
    trial
}
