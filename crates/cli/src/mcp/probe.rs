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
    offers: Vec<(OfferKind, Result<OfferItems, McpError>)>,
}

/// `pillion mcp probe`
pub(super) async fn run(
    positional: PositionalArguments,
    options: &Options,
) -> Result<ExitCode, McpCommandError> {
    let resolved = positional.resolve(options)?;
    resolved.reject_extra_words()?;
    let server = ServerConnection::new(resolved.server, options).await?;
    let outcome = server.run_until_done(Box::pin(probe(&server))).await;
    if outcome.is_err() && !options.json {
        // The list of all connection attempts is more helpful than only the last error.
        let attempts = server.client.connection_steps();
        if !attempts.is_empty() {
            print(&steps::as_text(&attempts))?;
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
    let connection = server.connection().await?;
    let mut offers = Vec::new();
    for kind in OfferKind::ALL {
        if kind.is_offered(&connection) {
            let items = server.fail_if_unauthorized(kind.list(server).await)?;
            offers.push((kind, items));
        }
    }
    Ok(ProbeResult { connection, offers })
}

impl ProbeResult {
    fn to_text(&self) -> String {
        let connection = &self.connection;
        let handshake = HandshakeResult::new(connection);
        let mut lines = vec![steps::as_text(&connection.steps), "Speaks".to_owned()];
        let mut fact = |name: &str, value: &str| {
            if !value.is_empty() {
                lines.push(format!("  {name:12}  {value}"));
            }
        };
        fact(
            "transport",
            transport(connection).as_str().unwrap_or_default(),
        );
        let revision = connection.protocol_version;
        fact(
            "revision",
            revision.map_or("none (no handshake)", |version| version.as_str()),
        );
        if let Some((name, version)) = connection.server_name() {
            let server = plain::one_line(&format!("{name} {version}"));
            fact("server", server.trim_end());
        }
        let capabilities = handshake.capabilities.as_ref().and_then(Value::as_object);
        let names: Vec<_> = capabilities
            .into_iter()
            .flat_map(|capabilities| capabilities.keys())
            .map(String::as_str)
            .collect();
        fact("capabilities", &plain::one_line(&names.join(", ")));
        let instructions = plain::one_line(&handshake.instructions.unwrap_or_default());
        fact("instructions", &plain::truncate(&instructions, 300));
        lines.push("Offers".to_owned());
        lines.extend(
            self.offers
                .iter()
                .map(|(kind, items)| offer_line(*kind, items)),
        );
        lines.join("\n")
    }

    fn to_json(&self) -> Value {
        let connection = &self.connection;
        let mut json = json!({
            "steps": steps::as_json(&connection.steps),
            "transport": transport(connection),
            "protocol_version": connection.protocol_version,
            "server": connection.server,
        });
        let mut offers = json!({});
        for (kind, items) in &self.offers {
            offers[kind.key()] = match items {
                Ok(items) => json!(kind.ids(items)),
                Err(error) => {
                    json!({"error": error.to_string(), "error_code": pillion_mcp_tools::error_code(error.class())})
                }
            };
        }
        json["offers"] = offers;
        json
    }
}

fn transport(connection: &ConnectionInfo) -> Value {
    json!(connection.transport)
}

/// Returns the number and the names of the items.
fn offer_line(kind: OfferKind, items: &Result<OfferItems, McpError>) -> String {
    const MAX_SHOWN_NAMES: usize = 50;
    let name = kind.name();
    match items {
        Ok(items) => {
            let mut names = kind.ids(items);
            names.truncate(MAX_SHOWN_NAMES);
            let more = match items.len() - names.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let line = format!("  {:>4} {name:9}  {}{more}", items.len(), names.join(", "));
            line.trim_end().to_owned()
        }
        Err(error) => {
            let error = plain::one_line(&error.to_string());
            format!("     ? {name:9}  {error}")
        }
    }
}
