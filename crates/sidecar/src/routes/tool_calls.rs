//! Routes under `/api/v1/tool-calls`: the call log.

mod entry;

use axum::extract::State;
use axum::{Extension, Json};
use pillion_core::store::{CallFilter, CallId, CallStatus, Timestamp};
use pillion_wire::{ToolCallList, ToolCallResponse, ToolCallStatistics, route};
use serde::Deserialize;

use super::error::{NOT_FOUND, RequestError, Result, route_error};
use super::extract::CallerError;
use super::page::{PageQuery, convert_records};
use super::parameters::{Parameters, PathParameter, parse_parameter};
use super::store::require_store;
use crate::app::App;
use pillion_gateway::access::AccessGrant;
use pillion_gateway::client_text::truncate_input;
use pillion_gateway::credentials::server_id_from_label;

route_error! {
    /// There is no call with the requested ID that the client may see.
    #[derive(Debug, thiserror::Error)]
    #[error("There is no recorded call '{0}'")]
    struct UnknownCall(String) => NOT_FOUND
}

/// The filters of a list of calls.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct CallQuery {
    /// Restricts the list to calls of the tools of the MCP server with this ID or name.
    server: Option<String>,
    /// Restricts the list to calls of this tool.
    tool: Option<String>,
    /// Restricts the list to calls on behalf of this user.
    user: Option<String>,
    /// Restricts the list to calls that a composed tool made during the call with this ID.
    #[param(pattern = "^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")]
    parent: Option<String>,
    /// Restricts the list to calls of this status: `pending`, `running`, `success`, `error`,
    /// `cancelled`, `interrupted` or `denied`.
    #[param(inline, value_type = Option<StatusName>)]
    status: Option<String>,
    /// Restricts the list to calls that came in at this time (RFC 3339) or later.
    #[param(format = DateTime)]
    from: Option<String>,
    /// Restricts the list to calls that came in before this time (RFC 3339).
    #[param(format = DateTime)]
    until: Option<String>,
}

/// The names and IDs of the MCP servers. The call log contains only the names.
pub(super) struct ServerIds(Vec<(String, String)>);

impl ServerIds {
    fn new(app: &App) -> Self {
        let servers = app.servers();
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
            user: user_filter(grant.only_user(), self.user)?,
            parent: parse_parameter("parent", self.parent.as_deref(), expected_id)?,
            status,
            from: parse_time("from", self.from.as_deref())?,
            until: parse_time("until", self.until.as_deref())?,
        })
    }
}

/// List recorded calls, newest first.
///
/// With a token that is restricted to one user, returns only the calls with that verified user.
#[utoipa::path(
    get,
    path = route::LIST_TOOL_CALLS.path,
    params(CallQuery, PageQuery),
    responses(
        (status = 200, description = "A page of calls", body = ToolCallList),
        (status = 400, description = "A parameter is invalid"),
        (status = 403, description = "The token is for another user"),
        (status = 503, description = "The store is not readable"),
    )
)]
pub(super) async fn list(
    State(app): State<App>,
    Extension(grant): Extension<AccessGrant>,
    Parameters(query): Parameters<CallQuery>,
    Parameters(page): Parameters<PageQuery>,
) -> Result<Json<ToolCallList>> {
    let servers = ServerIds::new(&app);
    let (filter, page_request) = (query.build_filter(&grant, &servers)?, page.request()?);
    let calls_page = require_store(&app)?.calls(&filter, &page_request).await?;
    let to_entry = move |call| entry::from_record(call, &servers);
    let calls = convert_records(&grant, calls_page.items, entry::count_json_bytes, to_entry);
    Ok(Json(ToolCallList {
        success: true,
        calls: calls.await,
        next: calls_page.next.map(|cursor| cursor.to_string()),
    }))
}

/// Return the number of calls, success rate and latency of each tool.
///
/// With a token that is restricted to one user, the statistics cover only the calls with that
/// verified user.
#[utoipa::path(
    get,
    path = route::TOOL_CALL_STATISTICS.path,
    params(CallQuery),
    responses(
        (status = 200, description = "The statistics of each tool", body = ToolCallStatistics),
        (status = 400, description = "A parameter is invalid"),
        (status = 403, description = "The token is for another user"),
        (status = 503, description = "The store is not readable"),
    )
)]
pub(super) async fn statistics(
    State(app): State<App>,
    Extension(grant): Extension<AccessGrant>,
    Parameters(query): Parameters<CallQuery>,
) -> Result<Json<ToolCallStatistics>> {
    let servers = ServerIds::new(&app);
    let filter = query.build_filter(&grant, &servers)?;
    let tools = require_store(&app)?
        .call_statistics(&filter)
        .await?
        .into_iter();
    Ok(Json(ToolCallStatistics {
        success: true,
        tools: tools
            .map(|tool| entry::from_statistics(tool, &servers))
            .collect(),
    }))
}

/// Show a recorded call.
///
/// With a token that is restricted to one user, returns only calls with that verified user.
#[utoipa::path(
    get,
    path = route::SHOW_TOOL_CALL.path,
    params(("id" = String, Path, description = "The call's ID, from a result's `metadata.record_id`")),
    responses(
        (status = 200, description = "The call", body = ToolCallResponse),
        (status = 404, description = "Call not found"),
        (status = 503, description = "The store is not readable"),
    )
)]
pub(super) async fn show(
    State(app): State<App>,
    Extension(grant): Extension<AccessGrant>,
    PathParameter(id): PathParameter,
) -> Result<Json<ToolCallResponse>> {
    let store = require_store(&app)?;
    let record = match id.parse::<CallId>() {
        Ok(id) => store.find_call(id).await?,
        Err(_) => None,
    };
    let call = record
        .filter(|call| grant.may_see_records_of(call.verified_user()))
        .ok_or_else(|| UnknownCall(truncate_input(&id)))?;
    Ok(Json(ToolCallResponse {
        success: true,
        call: entry::from_record(call, &ServerIds::new(&app)),
    }))
}

/// Returns the user whose records are requested. `only_user`, if set, is the only user whose
/// records the client may see.
pub(super) fn user_filter(
    only_user: Option<&str>,
    requested_user: Option<String>,
) -> Result<Option<String>, CallerError> {
    match (only_user, requested_user) {
        (Some(only_user), Some(requested_user)) if only_user != requested_user => {
            Err(CallerError::OtherUser)
        }
        (Some(only_user), _) => Ok(Some(only_user.to_owned())),
        (None, requested_user) => Ok(requested_user),
    }
}

fn parse_time(name: &'static str, text: Option<&str>) -> Result<Option<Timestamp>> {
    let time: Option<jiff::Timestamp> =
        parse_parameter(name, text, "a time such as 2026-11-21T18:00:00Z")?;
    Ok(time.map(|time| Timestamp::from_millis(time.as_millisecond())))
}
