use std::collections::HashMap;
use std::num::{NonZeroU32, NonZeroUsize};

use pillion_mcp_client::Handshake;
use pillion_wire::{ServerAuthentication, ServerCalls, ServerEntry, ServerRateLimit};
use serde::Serialize;

use super::definition::{address_of, kind_of};
use super::{CatalogServer, Server};
use pillion_config::{CredentialPolicy, McpServerSection, RateLimitSection};
use pillion_gateway::Gateway;
use pillion_gateway::connections::{ConnectionStatus, ServerReport};
use pillion_gateway::timestamp::format_timestamp;

pub(super) fn entries(all: &[Server], gateway: &Gateway) -> Vec<ServerEntry> {
    let reports: HashMap<_, _> = gateway
        .server_reports()
        .into_iter()
        .map(|report| (report.label.clone(), report))
        .collect();
    let calls = calls(gateway);
    let entry = |server: &Server| {
        let report = reports.get(server.name());
        let mut entry = match server {
            Server::OfFile(section) => entry_of_section(section, server.id()),
            Server::OfStore(stored, problem) => {
                let mut entry = entry_of_stored(stored, server.id());
                entry.error.clone_from(problem);
                entry
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
    all.iter().map(entry).collect()
}

fn add_report(entry: &mut ServerEntry, report: &ServerReport) {
    entry.status = report.status().as_str().to_owned();
    entry.error.clone_from(&report.error);
    entry.tool_count = report.tools;
    if let Some(at) = report.connected_at {
        entry.last_connected_at = Some(format_timestamp(at));
    }
}

/// Returns the number of calls of each server's tools since the start.
fn calls(gateway: &Gateway) -> HashMap<String, ServerCalls> {
    let mut calls: HashMap<String, ServerCalls> = HashMap::new();
    for (_, tool) in gateway.metrics().tools.all() {
        if let Some(server) = &tool.server {
            let (total, failed) = tool.calls_and_failures();
            let sum = calls.entry(server.clone()).or_default();
            sum.total += total;
            sum.failed += failed;
        }
    }
    calls
}

fn entry_of_section(section: &McpServerSection, id: String) -> ServerEntry {
    let (server, settings) = (&section.server, &section.settings);
    let (url, command) = address_of(server);
    ServerEntry {
        id,
        name: section.label().to_owned(),
        description: Some(server.description.clone()).filter(|text| !text.is_empty()),
        origin: "file".to_owned(),
        transport: name_of(&server.transport),
        url,
        command,
        handshake: name_of(&server.handshake),
        protocol_version: server.protocol_version.as_ref().map(name_of),
        authentication: ServerAuthentication {
            kind: kind_of(&server.authentication).to_owned(),
        },
        headers: server.headers.keys().cloned().collect(),
        timeout: u64::try_from(server.timeout.as_millis()).unwrap_or(u64::MAX),
        retry_attempts: settings.retry_attempts,
        enabled: settings.enabled,
        tool_prefix: section.tool_prefix(),
        require_approval: settings.require_approval.as_ref().map(name_of),
        pin: settings.pin.as_ref().map(name_of),
        new_tools: settings.new_tools.as_ref().map(name_of),
        rate_limit: settings.rate_limit.and_then(limit_of),
        max_concurrent: settings.max_concurrent.map(NonZeroUsize::get),
        credential: name_of(&settings.credential),
        status: ConnectionStatus::Disconnected.as_str().to_owned(),
        ..ServerEntry::default()
    }
}

fn entry_of_stored(stored: &CatalogServer, id: String) -> ServerEntry {
    let record = &stored.record;
    let mut entry = match &stored.section {
        Ok(section) => entry_of_section(section, id),
        // For example, the server's credentials cannot be read.
        Err(_) => match stored.disabled_section() {
            Some(section) => entry_of_section(&section, id),
            None => ServerEntry {
                id,
                handshake: name_of(&Handshake::default()),
                credential: name_of(&CredentialPolicy::default()),
                ..ServerEntry::default()
            },
        },
    };
    entry.origin = "store".to_owned();
    entry.name.clone_from(&record.name);
    entry.enabled = record.enabled;
    entry.authentication.kind.clone_from(&stored.authentication);
    entry.headers.clone_from(&stored.headers);
    entry.status = ConnectionStatus::Disconnected.as_str().to_owned();
    entry.last_connected_at = record.last_connected_at.map(format_timestamp);
    entry.created_at = Some(format_timestamp(record.created_at));
    entry.updated_at = Some(format_timestamp(record.updated_at));
    entry
}

/// Converts a rate limit; returns `None` for a section without limits.
fn limit_of(section: RateLimitSection) -> Option<ServerRateLimit> {
    let limit = ServerRateLimit {
        per_minute: section.per_minute.map(NonZeroU32::get),
        per_hour: section.per_hour.map(NonZeroU32::get),
        per_day: section.per_day.map(NonZeroU32::get),
    };
    (limit != ServerRateLimit::default()).then_some(limit)
}

/// Returns the string that `value` is serialized as in JSON.
fn name_of(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}
