use std::collections::HashMap;
use std::num::{NonZeroU32, NonZeroUsize};

use pillion_mcp_client::Handshake;
use pillion_wire::{ServerAuthentication, ServerCalls, ServerEntry, ServerRateLimit};
use serde::Serialize;
use serde_json::{Map, Value};

use super::definition::{Definition, authentication_type, display_address};
use super::{CatalogServer, Result, Server, ServerError};
use pillion_config::{CredentialPolicy, McpServerSection, RateLimitSection};
use pillion_gateway::Gateway;
use pillion_gateway::connections::{ConnectionStatus, ServerReport};
use pillion_gateway::timestamp::format_timestamp;

/// The settings of a server of the store, as a form shows them.
#[derive(Debug, Clone)]
pub struct EditableServer {
    /// The server in the format of the REST API.
    pub entry: ServerEntry,
    /// The prefix of the tool names, if one is set.
    pub tool_prefix: Option<String>,
    /// Whether the stored URL has a query or a fragment, which `entry` does not contain because it
    /// may be secret.
    pub has_hidden_url_part: bool,
    /// The receiver of the server's credentials.
    destination: String,
}

impl EditableServer {
    pub(super) fn new(server: &Server, entry: ServerEntry) -> Result<Self> {
        let catalog_server = match server {
            Server::FromFile(section) => {
                let name = section.label().to_owned();
                return Err(ServerError::DefinedInFile { name });
            }
            Server::FromStore(catalog_server, _) => catalog_server,
        };
        let definition = catalog_server
            .definition
            .as_ref()
            .ok_or(ServerError::Unreadable)?;
        if definition.is_program() {
            return Err(ServerError::Program);
        }
        Ok(Self {
            entry,
            tool_prefix: definition.settings.tool_prefix.clone(),
            has_hidden_url_part: definition.has_hidden_url_part(),
            destination: definition.credential_destination(),
        })
    }

    /// Returns whether `url` has another scheme, host or port than the stored URL. Such a change
    /// requires all credentials again. An invalid URL does not count as a change.
    #[must_use]
    pub fn is_moved_by(&self, url: &str) -> bool {
        let members = Map::from_iter([("url".to_owned(), Value::from(url))]);
        let definition = Definition::try_from(members);
        definition.is_ok_and(|definition| definition.credential_destination() != self.destination)
    }
}

pub(super) fn entries(servers: &[Server], gateway: &Gateway) -> Vec<ServerEntry> {
    let reports: HashMap<_, _> = gateway
        .server_reports()
        .into_iter()
        .map(|report| (report.label.clone(), report))
        .collect();
    let calls = count_calls(gateway);
    let entry = |server: &Server| {
        let report = reports.get(server.name());
        let mut entry = match server {
            Server::FromFile(section) => build_entry_from_section(section, server.id()),
            Server::FromStore(catalog_server, problem) => {
                let mut stored_entry = build_stored_entry(catalog_server, server.id());
                stored_entry.error.clone_from(problem);
                stored_entry
            }
        };
        match (&entry.error, report) {
            (Some(_), _) => entry.status = ConnectionStatus::Error.as_str().to_owned(),
            (None, Some(report)) if entry.enabled => add_report(&mut entry, report),
            _ => {}
        }
        entry.calls = calls.get(server.name()).copied().unwrap_or_default();
        entry
    };
    servers.iter().map(entry).collect()
}

fn add_report(entry: &mut ServerEntry, report: &ServerReport) {
    entry.status = report.status().as_str().to_owned();
    entry.error.clone_from(&report.error);
    entry.tool_count = report.tools;
    if let Some(connected_at) = report.connected_at {
        entry.last_connected_at = Some(format_timestamp(connected_at));
    }
}

/// Returns the number of calls of each server's tools since the sidecar started.
fn count_calls(gateway: &Gateway) -> HashMap<String, ServerCalls> {
    let mut calls: HashMap<String, ServerCalls> = HashMap::new();
    for (_, tool) in gateway.metrics().tools.snapshot() {
        if let Some(server) = &tool.server {
            let (total, failed) = tool.calls_and_failures();
            let server_calls = calls.entry(server.clone()).or_default();
            server_calls.total += total;
            server_calls.failed += failed;
        }
    }
    calls
}

fn build_entry_from_section(section: &McpServerSection, id: String) -> ServerEntry {
    let (server, settings) = (&section.server, &section.settings);
    let (url, command) = display_address(server);
    ServerEntry {
        id,
        name: section.label().to_owned(),
        description: Some(server.description.clone()).filter(|text| !text.is_empty()),
        origin: "file".to_owned(),
        transport: serialize_name(&server.transport),
        url,
        command,
        handshake: serialize_name(&server.handshake),
        protocol_version: server.protocol_version.as_ref().map(serialize_name),
        authentication: ServerAuthentication {
            kind: authentication_type(&server.authentication).to_owned(),
        },
        headers: server.headers.keys().cloned().collect(),
        timeout: u64::try_from(server.timeout.as_millis()).unwrap_or(u64::MAX),
        retry_attempts: settings.retry_attempts,
        enabled: settings.enabled,
        tool_prefix: section.tool_prefix(),
        require_approval: settings.require_approval.as_ref().map(serialize_name),
        pin: settings.pin.as_ref().map(serialize_name),
        new_tools: settings.new_tools.as_ref().map(serialize_name),
        rate_limit: settings.rate_limit.and_then(convert_rate_limit),
        max_concurrent: settings.max_concurrent.map(NonZeroUsize::get),
        credential: serialize_name(&settings.credential),
        status: ConnectionStatus::Disconnected.as_str().to_owned(),
        ..ServerEntry::default()
    }
}

fn build_stored_entry(catalog_server: &CatalogServer, id: String) -> ServerEntry {
    let record = &catalog_server.record;
    let mut entry = match &catalog_server.section {
        Ok(section) => build_entry_from_section(section, id),
        // The server's configuration is unavailable, for example because the server's credentials
        // cannot be read.
        Err(_) => match catalog_server.disabled_section() {
            Some(section) => build_entry_from_section(&section, id),
            None => ServerEntry {
                id,
                handshake: serialize_name(&Handshake::default()),
                credential: serialize_name(&CredentialPolicy::default()),
                ..ServerEntry::default()
            },
        },
    };
    entry.origin = "store".to_owned();
    entry.name.clone_from(&record.name);
    entry.enabled = record.enabled;
    entry
        .authentication
        .kind
        .clone_from(&catalog_server.authentication);
    entry.headers.clone_from(&catalog_server.headers);
    entry.status = ConnectionStatus::Disconnected.as_str().to_owned();
    entry.last_connected_at = record.last_connected_at.map(format_timestamp);
    entry.created_at = Some(format_timestamp(record.created_at));
    entry.updated_at = Some(format_timestamp(record.updated_at));
    entry
}

/// Converts a rate limit; returns `None` if the configuration sets no limits.
fn convert_rate_limit(section: RateLimitSection) -> Option<ServerRateLimit> {
    let limit = ServerRateLimit {
        per_minute: section.per_minute.map(NonZeroU32::get),
        per_hour: section.per_hour.map(NonZeroU32::get),
        per_day: section.per_day.map(NonZeroU32::get),
    };
    (limit != ServerRateLimit::default()).then_some(limit)
}

/// Returns the string to which `value` is serialized in JSON.
fn serialize_name(value: &impl Serialize) -> String {
    let json = serde_json::to_value(value).unwrap_or_default();
    json.as_str().unwrap_or_default().to_owned()
}
