use std::process::ExitCode;

use clap::Args;
use pillion_mcp_client::{ConnectionInfo, McpError, ProbeStep};
use serde_json::{Value, json};

use super::error::McpCommandError;
use super::offer::{Hello, Items, Kind};
use super::options::Options;
use super::plain;
use super::positional_arguments::PositionalArguments;
use super::server::Server;
use crate::print;

/// `pillion mcp probe`
#[derive(Debug, Args)]
#[command(
    override_usage = "pillion mcp probe [OPTIONS] URL\n       pillion mcp probe [OPTIONS] -- COMMAND..."
)]
pub(super) struct Probe {
    #[command(flatten)]
    positional: PositionalArguments,
}

/// The result of a probe.
struct ProbeResult {
    connection: ConnectionInfo,
    offers: Vec<(Kind, Result<Items, McpError>)>,
}

impl Probe {
    pub(super) async fn apply(self, options: &Options) -> Result<ExitCode, McpCommandError> {
        let resolved = self.positional.resolve(options)?;
        resolved.reject_extra_words()?;
        let server = Server::new(resolved.server, options).await?;
        let outcome = server.run_until_done(Box::pin(probe(&server))).await;
        let found = match outcome {
            Ok(found) => found,
            Err(error) => {
                // The list of attempts is more helpful than the last error alone.
                let steps = server.client.connection_steps();
                if !options.json && !steps.is_empty() {
                    print(&format_steps(&steps)).map_err(McpCommandError::output)?;
                }
                return Err(error);
            }
        };
        let text = if options.json {
            found.to_json().to_string()
        } else {
            found.to_text()
        };
        print(&text).map_err(McpCommandError::output)?;
        Ok(ExitCode::SUCCESS)
    }
}

async fn probe(server: &Server) -> Result<ProbeResult, McpCommandError> {
    server.connect().await?;
    let connection = server.client.connection().await;
    let connection = connection.map_err(|source| server.request_error(source, Vec::new()))?;
    let mut offers = Vec::new();
    for kind in Kind::ALL {
        if kind.is_offered(&connection) {
            let items = kind.list(server).await;
            let items = server.fail_if_unauthorized(items)?;
            offers.push((kind, items));
        }
    }
    Ok(ProbeResult { connection, offers })
}

impl ProbeResult {
    fn to_text(&self) -> String {
        let connection = &self.connection;
        let hello = Hello::of(connection);
        let mut lines = vec![format_steps(&connection.steps), "Speaks".to_owned()];
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
            fact(
                "server",
                plain::one_line(&format!("{name} {version}")).trim_end(),
            );
        }
        let capabilities = hello.capabilities.as_ref().and_then(Value::as_object);
        let names = capabilities
            .into_iter()
            .flat_map(|capabilities| capabilities.keys());
        let names: Vec<_> = names.map(String::as_str).collect();
        fact("capabilities", &plain::one_line(&names.join(", ")));
        let instructions = hello.instructions.unwrap_or_default();
        fact(
            "instructions",
            &plain::truncate(&plain::one_line(&instructions), 300),
        );
        lines.push("Offers".to_owned());
        lines.extend(self.offers.iter().map(|(kind, items)| offer(*kind, items)));
        lines.join("\n")
    }

    fn to_json(&self) -> Value {
        let connection = &self.connection;
        let mut json = json!({
            "steps": steps_as_json(&connection.steps),
            "transport": transport(connection),
            "protocol_version": connection.protocol_version,
            "server": connection.server,
        });
        let mut offers = json!({});
        for (kind, items) in &self.offers {
            offers[kind.key()] = match items {
                Ok(items) => items.iter().map(|item| kind.id_of(item)).collect(),
                Err(error) => {
                    json!({"error": error.to_string(), "error_code": pillion_mcp_tools::error_code(error.class())})
                }
            };
        }
        json["offers"] = offers;
        json
    }
}

fn format_steps(steps: &[ProbeStep]) -> String {
    let mut lines = vec!["Tried".to_owned()];
    lines.extend(steps.iter().map(|step| {
        let outcome = match &step.outcome {
            Ok(agreed) => agreed.clone(),
            Err(error) => format!("failed: {error}"),
        };
        plain::truncate(
            &plain::one_line(&format!("{}: {outcome}", step.attempt)),
            300,
        )
    }));
    lines.join("\n  ")
}

pub(super) fn steps_as_json(steps: &[ProbeStep]) -> Value {
    let step = |step: &ProbeStep| match &step.outcome {
        Ok(agreed) => json!({"attempt": step.attempt, "outcome": agreed}),
        Err(error) => json!({"attempt": step.attempt, "error": error}),
    };
    steps.iter().map(step).collect()
}

fn transport(connection: &ConnectionInfo) -> Value {
    json!(connection.transport)
}

/// Returns the number and the names of the items.
fn offer(kind: Kind, items: &Result<Items, McpError>) -> String {
    const MAX_SHOWN_NAMES: usize = 50;
    match items {
        Ok(items) => {
            let names = items
                .iter()
                .take(MAX_SHOWN_NAMES)
                .map(|item| kind.id_of(item));
            let names: Vec<_> = names.collect();
            let more = items.len().saturating_sub(MAX_SHOWN_NAMES);
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            let line = format!(
                "  {:>4} {:9}  {}{more}",
                items.len(),
                kind.name(),
                names.join(", ")
            );
            line.trim_end().to_owned()
        }
        Err(error) => {
            let error = plain::one_line(&error.to_string());
            format!("     ? {:9}  {error}", kind.name())
        }
    }
}
