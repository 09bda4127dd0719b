//! Pins: the accepted definitions of the tools of MCP servers.

use std::collections::{HashMap, HashSet};

use pillion_core::compute;
use pillion_core::store::{PinOwner, Store, StoreError, ToolPin, Verdict};
use pillion_gateway::Gateway;
use pillion_gateway::access::AccessGrant;
use pillion_gateway::client_text::truncate_input;
use pillion_gateway::pins;
use pillion_gateway::timestamp::format_timestamp;
use pillion_wire::{PinEntry, PinList, PinResponse};
use serde::Deserialize;

use crate::error::{CONFLICT, NOT_FOUND, RequestError, Result, route_error};
use crate::parameter::parse_parameter;
use crate::store::require_store;

route_error! {
    /// The reason why a pin is not shown, accepted or rejected.
    #[derive(Debug, thiserror::Error)]
    enum PinError {
        #[error("There is no pin for the tool '{tool}' of the server '{server}'")]
        UnknownPin { server: String, tool: String } => NOT_FOUND,
        #[error("{reason}")]
        Conflict { reason: String } => CONFLICT,
    }
}

/// The filter of the pin list.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PinQuery {
    /// Restricts the list to the pins of the server with this label.
    pub server: Option<String>,
    /// Restricts the list to the pins of tools that are listed for this user alone.
    pub user: Option<String>,
    /// Restricts the list to the pins that wait for a decision: those with the status `changed`,
    /// `renamed` or `new`.
    #[param(value_type = Option<bool>)]
    pub changed: Option<String>,
}

/// The tool whose pin is requested.
#[derive(Debug, Clone, Copy)]
pub struct PinnedTool<'a> {
    /// The label of the server.
    pub server: &'a str,
    /// The name of the tool on the server.
    pub tool: &'a str,
    /// The user for whom the server lists the tool, if the server lists tools per user.
    pub user: Option<&'a str>,
}

impl<'a> PinnedTool<'a> {
    /// Returns the owner of the pin, if the client may see the pin.
    fn find_owner(self, grant: &AccessGrant) -> Result<PinOwner<'a>, PinError> {
        let Self { server, user, .. } = self;
        let user = user.filter(|user| !user.is_empty());
        may_see(grant, user)
            .then_some(PinOwner { server, user })
            .ok_or_else(|| self.unknown_pin_error())
    }

    fn unknown_pin_error(self) -> PinError {
        PinError::UnknownPin {
            server: truncate_input(self.server),
            tool: truncate_input(self.tool),
        }
    }
}

/// Returns whether the client may see the tools that a server lists for `user`, which requires that
/// the client may act on behalf of the user.
fn may_see(grant: &AccessGrant, user: Option<&str>) -> bool {
    user.is_none_or(|user| grant.may_act_for(user))
}

/// Lists the pins that `grant` may see.
///
/// # Errors
/// The query is invalid, or the store cannot be read.
pub async fn list(gateway: &Gateway, grant: &AccessGrant, query: PinQuery) -> Result<PinList> {
    let changed_filter = parse_parameter("changed", query.changed.as_deref(), "true or false")?;
    let is_changed_only = changed_filter.unwrap_or(false);
    let store = require_store(gateway)?;
    let labels = match query.server {
        Some(label) => vec![label],
        None => {
            let servers = gateway.upstreams().servers().iter();
            servers.map(|server| server.label.clone()).collect()
        }
    };
    let mut entries = Vec::new();
    for label in labels {
        let pins = match query.user.as_deref().filter(|user| !user.is_empty()) {
            None => store.server_pins(&label).await?,
            user => {
                let server = &label;
                store.pins(PinOwner { server, user }).await?
            }
        };
        let is_shown = |pin: &ToolPin| {
            (!is_changed_only || pin.is_undecided()) && may_see(grant, pin.user.as_deref())
        };
        let visible_pins: Vec<_> = pins.into_iter().filter(is_shown).collect();
        let bytes = visible_pins.iter().map(pins::pin_bytes).sum();
        let convert = move || visible_pins.iter().map(build_entry).collect::<Vec<_>>();
        entries.extend(compute::run(&label, bytes, convert).await);
    }
    Ok(PinList {
        success: true,
        pins: entries,
    })
}

/// Returns the number of tools whose changed definitions are neither accepted nor rejected. A grant
/// that is restricted to one user sees no number.
///
/// # Errors
/// The store cannot be read.
pub async fn count_changed(gateway: &Gateway, grant: &AccessGrant) -> Result<u64> {
    match grant.only_user() {
        Some(_) => Ok(0),
        None => Ok(require_store(gateway)?.count_pending_pins().await?),
    }
}

/// Returns the pin of a tool, with the differences of a changed definition.
///
/// # Errors
/// There is no such pin, or the store cannot be read.
pub async fn find(
    gateway: &Gateway,
    grant: &AccessGrant,
    tool: PinnedTool<'_>,
) -> Result<PinResponse> {
    let owner = tool.find_owner(grant)?;
    load_pin(&*require_store(gateway)?, owner, tool).await
}

/// Accepts or rejects the changed definition of a tool; if `hash` is set, only the definition with this
/// hash. A tool with a rejected definition is blocked until the server offers another definition, or
/// an operator accepts this one.
///
/// # Errors
/// There is no such pin; the definition has not changed, or has another hash; the store cannot be
/// written.
pub async fn decide(
    gateway: &Gateway,
    grant: &AccessGrant,
    tool: PinnedTool<'_>,
    hash: Option<&str>,
    verdict: Verdict,
) -> Result<PinResponse> {
    let owner = tool.find_owner(grant)?;
    let store = require_store(gateway)?;
    let outcome = pins::decide(&*store, owner, tool.tool, hash, verdict).await;
    outcome.map_err(|error| decision_error(tool, error))?;
    let message = match verdict {
        Verdict::Approved => "Accepted the changed definition of a tool",
        _ => "Rejected the changed definition of a tool",
    };
    tracing::info!(
        server.label = tool.server,
        user = owner.user,
        tool.name = tool.tool,
        "{message}"
    );
    gateway.upstreams().expire(tool.server);
    load_pin(&*store, owner, tool).await
}

/// Returns the error of a request whose decision on a definition failed.
fn decision_error(tool: PinnedTool<'_>, error: StoreError) -> RequestError {
    if error.is_not_found() {
        return tool.unknown_pin_error().into();
    }
    if error.is_conflict() {
        let reason = error.to_string();
        return PinError::Conflict { reason }.into();
    }
    error.into()
}

/// The tools that MCP servers currently offer to all users, to find accepted tools that are no
/// longer offered.
#[derive(Debug)]
pub struct ListedTools {
    /// The names of the tools on each connected server, by the label of the server.
    names_by_server: HashMap<String, HashSet<String>>,
}

impl ListedTools {
    /// Reads the known tools, without sending requests. Servers whose last list failed, or that
    /// have not listed their tools yet, are skipped.
    #[must_use]
    pub fn read(gateway: &Gateway) -> Self {
        let reports = gateway.server_reports();
        let connected_servers = reports
            .into_iter()
            .filter(|report| report.error.is_none() && report.connected_at.is_some());
        let mut names_by_server: HashMap<_, HashSet<_>> = connected_servers
            .map(|report| (report.label, HashSet::new()))
            .collect();
        for tool in gateway.upstreams().tools().values() {
            if let Some(names) = names_by_server.get_mut(&tool.server().label) {
                names.insert(tool.remote_name().to_owned());
            }
        }
        Self { names_by_server }
    }

    /// Returns whether the tool of an accepted pin is no longer offered. The tools of single users
    /// are never counted as missing, because each user has a separate list.
    #[must_use]
    pub fn lacks(&self, pin: &PinEntry) -> bool {
        let listed_names = self.names_by_server.get(&pin.server);
        pin.user.is_none()
            && pin.pending_hash.is_none()
            && listed_names.is_some_and(|names| !names.contains(&pin.tool))
    }
}

async fn load_pin(
    store: &dyn Store,
    owner: PinOwner<'_>,
    tool: PinnedTool<'_>,
) -> Result<PinResponse> {
    let stored_pin = store.find_pin(owner, tool.tool).await?;
    let pin = stored_pin.ok_or_else(|| tool.unknown_pin_error())?;
    let bytes = pins::pin_bytes(&pin);
    let build_response = compute::run(owner.server, bytes, move || {
        let changes = match &pin.pending {
            Some(pending_definition) => {
                pins::find_differences(&pin.definition, &pending_definition.definition)
            }
            None => Vec::new(),
        };
        PinResponse {
            success: true,
            definition: serde_json::from_str(&pin.definition).unwrap_or_default(),
            changes,
            pin: build_entry(&pin),
        }
    });
    Ok(build_response.await)
}

fn build_entry(pin: &ToolPin) -> PinEntry {
    let pending_definition = pin.pending.as_ref();
    let newest_definition = pending_definition.map_or(&pin.definition, |pending_definition| {
        &pending_definition.definition
    });
    PinEntry {
        server: pin.server.clone(),
        user: pin.user.clone(),
        tool: pin.tool.clone(),
        status: pins::status(pin).to_owned(),
        hash: pin.hash.clone(),
        accepted_at: format_timestamp(pin.accepted_at),
        pending_hash: pending_definition.map(|pending_definition| pending_definition.hash.clone()),
        pending_since: pending_definition
            .map(|pending_definition| format_timestamp(pending_definition.seen_at)),
        warnings: pins::find_warnings(&serde_json::from_str(newest_definition).unwrap_or_default()),
    }
}
