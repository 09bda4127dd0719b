//! The call log: lists of calls, single calls, and statistics.

use std::time::Duration;

pub use pillion_core::store::{CallCounts, CallGrouping, CallStatistics};
use pillion_core::store::{CallFilter, CallId, CallStatus, Timestamp, ToolCallRecord};
use pillion_gateway::Gateway;
use pillion_gateway::access::AccessGrant;
use pillion_gateway::client_text::truncate_input;
use pillion_gateway::credentials::server_id_from_label;
use pillion_gateway::timestamp::format_timestamp;
use pillion_wire::{ToolCallEntry, ToolCallList, ToolCallStatistics, ToolUsage};
use serde::Deserialize;

use crate::error::{DENIED, NOT_FOUND, RequestError, Result, route_error};
use crate::page::{PageQuery, convert_records, stored_json};
use crate::parameter::parse_parameter;
use crate::servers::Servers;
use crate::store::require_store;

route_error! {
    /// There is no call with the requested ID that the client may see.
    #[derive(Debug, thiserror::Error)]
    #[error("There is no recorded call '{0}'")]
    struct UnknownCall(String) => NOT_FOUND
}

route_error! {
    /// The filter names another user than the one whose records the client may see.
    #[derive(Debug, thiserror::Error)]
    #[error("The access token is for a different user than the one in the parameter 'user'")]
    pub(crate) struct OtherUser => DENIED
}

/// The filters of a list of calls.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct CallQuery {
    /// Restricts the list to calls of the tools of the MCP server with this ID or name.
    pub server: Option<String>,
    /// Restricts the list to calls of this tool.
    pub tool: Option<String>,
    /// Restricts the list to calls on behalf of this user.
    pub user: Option<String>,
    /// Restricts the list to calls that a composed tool made during the call with this ID.
    #[param(pattern = "^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")]
    pub parent: Option<String>,
    /// Restricts the list to calls of this status: `pending`, `running`, `success`, `error`,
    /// `cancelled`, `interrupted` or `denied`.
    #[param(inline, value_type = Option<StatusName>)]
    pub status: Option<String>,
    /// Restricts the list to calls that came in at this time (RFC 3339) or later.
    #[param(format = DateTime)]
    pub from: Option<String>,
    /// Restricts the list to calls that came in before this time (RFC 3339).
    #[param(format = DateTime)]
    pub until: Option<String>,
}

/// The names and IDs of the MCP servers. The call log contains only the names.
struct ServerIds(Vec<(String, String)>);

impl ServerIds {
    fn new(servers: Option<&Servers>) -> Self {
        Self(servers.map(|servers| servers.names()).unwrap_or_default())
    }

    /// Returns the ID of a server. A server that no longer exists was in the configuration file, so
    /// its ID is derived from its name.
    fn find_id(&self, name: &str) -> String {
        let server = self.0.iter().find(|(_, server_name)| server_name == name);
        server.map_or_else(|| server_id_from_label(name), |(id, _)| id.clone())
    }

    /// Returns the name of the server with the ID `key`. Returns any other key unchanged, because
    /// it may be a name.
    fn find_name(&self, key: String) -> String {
        let server = self.0.iter().find(|(id, _)| *id == key);
        server.map_or(key, |(_, name)| name.clone())
    }
}

/// The values of the query parameter `status`, for the OpenAPI document.
#[derive(utoipa::ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "describes a parameter, and is never constructed")]
enum StatusName {
    Pending,
    Running,
    Success,
    Error,
    Cancelled,
    Interrupted,
    Denied,
}

impl CallQuery {
    /// Returns the filter, limited to the calls that `grant` may see.
    fn build_filter(self, grant: &AccessGrant, servers: &ServerIds) -> Result<CallFilter> {
        let unknown_status =
            || RequestError::not_one_of("status", CallStatus::ALL.map(CallStatus::as_str));
        let status = match self.status {
            None => None,
            Some(name) => Some(CallStatus::from_name(&name).ok_or_else(unknown_status)?),
        };
        let expected_id = "the ID of a call";
        Ok(CallFilter {
            server: self.server.map(|server| servers.find_name(server)),
            tool: self.tool,
            only_verified: grant.only_user().is_some(),
            user: user_filter(grant, self.user)?,
            parent: parse_parameter("parent", self.parent.as_deref(), expected_id)?,
            status,
            from: parse_time("from", self.from.as_deref())?,
            until: parse_time("until", self.until.as_deref())?,
        })
    }
}

/// Lists the calls that `grant` may see, newest first. `servers` has the IDs of the MCP servers.
///
/// # Errors
/// The query is invalid, or the store cannot be read.
pub async fn list(
    gateway: &Gateway,
    servers: Option<&Servers>,
    grant: &AccessGrant,
    query: CallQuery,
    page: PageQuery,
) -> Result<ToolCallList> {
    let server_ids = ServerIds::new(servers);
    let (filter, page_request) = (query.build_filter(grant, &server_ids)?, page.request()?);
    let calls_page = require_store(gateway)?
        .calls(&filter, &page_request)
        .await?;
    let to_entry = move |call| build_entry(call, &server_ids);
    let calls = convert_records(grant, calls_page.items, count_json_bytes, to_entry);
    Ok(ToolCallList {
        success: true,
        calls: calls.await,
        next: calls_page.next.map(|cursor| cursor.to_string()),
    })
}

/// Returns the statistics of each tool, over the calls that `grant` may see.
///
/// # Errors
/// The query is invalid, or the store cannot be read.
pub async fn statistics(
    gateway: &Gateway,
    servers: Option<&Servers>,
    grant: &AccessGrant,
    query: CallQuery,
) -> Result<ToolCallStatistics> {
    let server_ids = ServerIds::new(servers);
    let tools = group_statistics(gateway, servers, grant, query, CallGrouping::Tool).await?;
    let usages = tools.into_iter().map(|tool| build_usage(tool, &server_ids));
    Ok(ToolCallStatistics {
        success: true,
        tools: usages.collect(),
    })
}

/// Returns the statistics of each group of calls, over the calls that `grant` may see.
///
/// # Errors
/// The query is invalid, or the store cannot be read.
pub async fn group_statistics(
    gateway: &Gateway,
    servers: Option<&Servers>,
    grant: &AccessGrant,
    query: CallQuery,
    grouping: CallGrouping,
) -> Result<Vec<CallStatistics>> {
    let filter = query.build_filter(grant, &ServerIds::new(servers))?;
    Ok(require_store(gateway)?
        .call_statistics(&filter, grouping)
        .await?)
}

/// Counts the calls that `grant` may see in each of the last `count` intervals, the oldest first. The
/// last interval began less than `interval` ago.
///
/// # Errors
/// The query is invalid, or the store cannot be read.
pub async fn count_by_interval(
    gateway: &Gateway,
    servers: Option<&Servers>,
    grant: &AccessGrant,
    query: CallQuery,
    interval: Duration,
    count: usize,
) -> Result<Vec<CallCounts>> {
    let filter = query.build_filter(grant, &ServerIds::new(servers))?;
    let interval_ms = u64::try_from(interval.as_millis())
        .unwrap_or(u64::MAX)
        .max(1);
    let now_ms = u64::try_from(Timestamp::now().as_millis()).unwrap_or_default();
    let end_ms = (now_ms / interval_ms + 1) * interval_ms;
    let start_ms = |age: usize| end_ms.saturating_sub(age as u64 * interval_ms);
    let boundary =
        |age: usize| Timestamp::from_millis(i64::try_from(start_ms(age)).unwrap_or(i64::MAX));
    let boundaries: Vec<_> = (0..=count).rev().map(boundary).collect();
    Ok(require_store(gateway)?
        .count_calls(&filter, &boundaries)
        .await?)
}

/// Returns the call with this ID, if `grant` may see the call.
///
/// # Errors
/// There is no such call, or the store cannot be read.
pub async fn find(
    gateway: &Gateway,
    servers: Option<&Servers>,
    grant: &AccessGrant,
    id: &str,
) -> Result<ToolCallEntry> {
    let store = require_store(gateway)?;
    let record = match id.parse::<CallId>() {
        Ok(id) => store.find_call(id).await?,
        Err(_) => None,
    };
    let call = record
        .filter(|call| grant.may_see_records_of(call.verified_user()))
        .ok_or_else(|| UnknownCall(truncate_input(id)))?;
    Ok(build_entry(call, &ServerIds::new(servers)))
}

/// Returns the user whose records are requested: with a grant for a single user, this user.
pub(crate) fn user_filter(
    grant: &AccessGrant,
    requested_user: Option<String>,
) -> Result<Option<String>, OtherUser> {
    let resolved_user = grant.resolve_user(requested_user);
    resolved_user.map(|(user, _)| user).map_err(|_| OtherUser)
}

fn parse_time(name: &'static str, text: Option<&str>) -> Result<Option<Timestamp>> {
    let time: Option<jiff::Timestamp> =
        parse_parameter(name, text, "a time such as 2026-11-21T18:00:00Z")?;
    Ok(time.map(|time| Timestamp::from_millis(time.as_millisecond())))
}

/// Converts a recorded call to its representation in the REST API.
fn build_entry(call: ToolCallRecord, servers: &ServerIds) -> ToolCallEntry {
    ToolCallEntry {
        id: call.id.to_string(),
        started_at: format_timestamp(call.arrived_at()),
        server_id: call.server.as_deref().map(|name| servers.find_id(name)),
        server_name: call.server,
        tool_name: call.tool,
        user: call.user,
        user_is_verified: call.user_is_verified,
        principal: call.principal,
        caller: call.caller,
        arguments: stored_json(&call.arguments),
        repaired_arguments: call.repaired_arguments.as_deref().map(stored_json),
        approved_arguments: call.approved_arguments.as_deref().map(stored_json),
        status: call.status.as_str().to_owned(),
        // A successful call without a duration is a cached result.
        cached: call.status == CallStatus::Success && call.duration.is_none(),
        completed_at: call.completed_at.map(format_timestamp),
        duration_ms: call.duration.map(to_millis),
        result: call
            .result
            .as_deref()
            .filter(|json| *json != "null")
            .map(stored_json),
        error: call.error,
        error_code: call.error_code.map(|code| code.as_str().to_owned()),
        parent_id: call.parent.map(|parent| parent.to_string()),
    }
}

/// Converts a tool's statistics to their representation in the REST API.
fn build_usage(tool: CallStatistics, servers: &ServerIds) -> ToolUsage {
    ToolUsage {
        success_rate: tool.success_rate(),
        server_id: tool.server.as_deref().map(|name| servers.find_id(name)),
        server_name: tool.server,
        tool_name: tool.tool.unwrap_or_default(),
        calls: tool.calls,
        succeeded: tool.succeeded,
        failed: tool.failed,
        p50_ms: tool.p50.map(to_millis),
        p95_ms: tool.p95.map(to_millis),
        p99_ms: tool.p99.map(to_millis),
    }
}

/// Returns the size of a call's stored JSON, in bytes.
fn count_json_bytes(call: &ToolCallRecord) -> usize {
    let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let changed_bytes = length(&call.repaired_arguments) + length(&call.approved_arguments);
    call.arguments.len() + changed_bytes + length(&call.result)
}

/// Returns the duration in milliseconds, rounded to the microsecond.
fn to_millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
