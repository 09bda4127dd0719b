use std::process::ExitCode;

use pillion_mcp_client::{ConnectionInfo, McpError};
use serde_json::{Value, json};

use super::error::McpCommandError;
use super::offer::{HandshakeResult, OfferItems, OfferKind};
use super::options::Options;
use super::positional_arguments::PositionalArguments;
use super::server::ServerConnection;
use super::{plain, steps};
use crate::output::print;

/// The result of a probe.
struct ProbeResult {
    connection: ConnectionInfo,
    offered_lists: Vec<(OfferKind, Result<OfferItems, McpError>)>,
}

/// `pillion mcp probe`
pub(super) async fn run(
    positional_arguments: PositionalArguments,
    options: &Options,
) -> Result<ExitCode, McpCommandError> {
    let resolved_arguments = positional_arguments.resolve(options)?;
    resolved_arguments.reject_extra_words()?;
    let server = ServerConnection::new(resolved_arguments.server, options).await?;
    let outcome = server.run_until_done(Box::pin(probe(&server))).await;
    if outcome.is_err() && !options.json {
        // All connection attempts are printed, because they explain the failure better than the
        // last error alone.
        let attempts = server.client.connection_steps();
        if !attempts.is_empty() {
            print(&steps::format_steps(&attempts))?;
        }
    }
    let result = outcome?;
    print(&if options.json {
        result.to_json().to_string()
    } else {
        result.to_text()
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn probe(server: &ServerConnection) -> Result<ProbeResult, McpCommandError> {
    let connection = server.fetch_connection_info().await?;
    let mut offered_lists = Vec::new();
    for kind in OfferKind::ALL {
        if kind.is_offered(&connection) {
            let items = server.fail_if_unauthorized(kind.list(server).await)?;
            offered_lists.push((kind, items));
        }
    }
    Ok(ProbeResult {
        connection,
        offered_lists,
    })
}

impl ProbeResult {
    fn to_text(&self) -> String {
        let connection = &self.connection;
        let handshake = HandshakeResult::new(connection);
        let mut lines = vec![steps::format_steps(&connection.steps), "Speaks".to_owned()];
        let mut add_fact = |name: &str, value: &str| {
            if !value.is_empty() {
                lines.push(format!("  {name:12}  {value}"));
            }
        };
        let transport = json!(connection.transport);
        add_fact("transport", transport.as_str().unwrap_or_default());
        let revision = connection.protocol_version;
        let revision_text = revision.map_or("none (no handshake)", |version| version.as_str());
        add_fact("revision", revision_text);
        if let Some((name, version)) = connection.server_name() {
            let server = plain::to_one_line(&format!("{name} {version}"));
            add_fact("server", server.trim_end());
        }
        let capabilities = handshake.capabilities.as_ref().and_then(Value::as_object);
        let names: Vec<_> = capabilities
            .into_iter()
            .flat_map(|capabilities| capabilities.keys())
            .map(String::as_str)
            .collect();
        add_fact("capabilities", &plain::to_one_line(&names.join(", ")));
        let instructions = plain::to_one_line(&handshake.instructions.unwrap_or_default());
        add_fact("instructions", &plain::truncate(&instructions, 300));
        lines.push("Offers".to_owned());
        lines.extend(
            self.offered_lists
                .iter()
                .map(|(kind, items)| format_offer(*kind, items)),
        );
        lines.join("\n")
    }

    fn to_json(&self) -> Value {
        let connection = &self.connection;
        let mut json = json!({
            "steps": steps::to_json(&connection.steps),
            "transport": connection.transport,
            "protocol_version": connection.protocol_version,
            "server": connection.server,
        });
        let mut offered_lists = json!({});
        for (kind, items) in &self.offered_lists {
            offered_lists[kind.key()] = match items {
                Ok(items) => json!(kind.ids(items)),
                Err(error) => {
                    json!({"error": error.to_string(), "error_code": pillion_mcp_tools::error_code(error.class())})
                }
            };
        }
        json["offers"] = offered_lists;
        json
    }
}

/// Returns the number and the names of the items.
fn format_offer(kind: OfferKind, items: &Result<OfferItems, McpError>) -> String {
    const MAX_SHOWN_NAMES: usize = 50;
    let name = kind.name();
    match items {
        Ok(items) => {
            let mut names = kind.ids(items);
            names.truncate(MAX_SHOWN_NAMES);
            let more_suffix = match items.len() - names.len() {
                0 => String::new(),
                hidden_count => format!(" and {hidden_count} more"),
            };
            let (count, shown_names) = (items.len(), names.join(", "));
            let line = format!("  {count:>4} {name:9}  {shown_names}{more_suffix}");
            line.trim_end().to_owned()
        }
        Err(error) => {
            let message = plain::to_one_line(&error.to_string());
            format!("     ? {name:9}  {message}")
        }
    }
}
