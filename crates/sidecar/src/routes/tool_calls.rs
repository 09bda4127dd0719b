//! Routes under `/api/v1/tool-calls`: the call log.

mod entry;

use axum::extract::State;
use axum::{Extension, Json};
use pillion_core::store::{CallFilter, CallId, CallStatus, Timestamp};
use pillion_wire::{ToolCallList, ToolCallResponse, ToolCallStatistics, route};
use serde::Deserialize;

use super::caller::CallerError;
use super::error::{NOT_FOUND, RequestError, route_error};
use super::page::{PageQuery, convert_records};
use super::parameters::{Parameters, PathParameter, parsed};
use super::store::store_of;
use crate::app::App;
use pillion_gateway::access::AccessGrant;
use pillion_gateway::credentials::file_id;

route_error! {
    /// No visible call has the ID.
    #[derive(Debug, thiserror::Error)]
    #[error("There is no recorded call with this ID")]
    struct UnknownCall => NOT_FOUND
}

/// The filters of a list of calls.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct CallQuery {
    /// Only calls to tools of this MCP server, by id or name.
    server: Option<String>,
    /// Only calls of this tool.
    tool: Option<String>,
    /// Only calls on behalf of this user.
    user: Option<String>,
    /// Only calls made by the composed tool's call with this id.
    #[param(pattern = "^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")]
    parent: Option<String>,
    /// Only calls of this status: `pending`, `running`, `success`, `error`, `cancelled`,
    /// `interrupted` or `denied`.
    #[param(inline, value_type = Option<StatusName>)]
    status: Option<String>,
    /// Only calls that came in at this time (RFC 3339) or later.
    #[param(format = DateTime)]
    from: Option<String>,
    /// Only calls that came in before this time (RFC 3339).
    #[param(format = DateTime)]
    until: Option<String>,
}

/// The names and ids of the MCP servers. The call log contains only the names.
pub(super) struct ServerIds(Vec<(String, String)>);

impl ServerIds {
    fn new(app: &App) -> Self {
        let servers = app.servers();
        Self(servers.map(|servers| servers.names()).unwrap_or_default())
    }

    /// Returns the id of a server. A server that no longer exists was in the configuration file, so
    /// its id is derived from its name.
    fn id_of(&self, name: &str) -> String {
        let known = self.0.iter().find(|(_, known)| known == name);
        known.map_or_else(|| file_id(name), |(id, _)| id.clone())
    }

    /// Returns the name of the server with this id or name.
    fn name_of(&self, key: String) -> String {
        let known = self.0.iter().find(|(id, _)| *id == key);
        known.map_or(key, |(_, name)| name.clone())
    }
}

/// The names of the statuses.
#[derive(utoipa::ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "describes a parameter, and is never made")]
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
    fn filter(self, grant: &AccessGrant, servers: &ServerIds) -> Result<CallFilter, RequestError> {
        let known = || RequestError::word("status", CallStatus::ALL.map(CallStatus::as_str));
        let status = match self.status {
            None => None,
            Some(name) => Some(CallStatus::from_name(&name).ok_or_else(known)?),
        };
        let id = "the ID of a call";
        Ok(CallFilter {
            server: self.server.map(|server| servers.name_of(server)),
            tool: self.tool,
            only_verified: grant.only_user().is_some(),
            user: only_of(grant.only_user(), self.user)?,
            parent: parsed("parent", self.parent.as_deref(), id)?,
            status,
            from: parse_time("from", self.from.as_deref())?,
            until: parse_time("until", self.until.as_deref())?,
        })
    }
}

/// List recorded calls, newest first.
///
/// A token for one user sees only the calls in which that user is verified.
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
) -> Result<Json<ToolCallList>, RequestError> {
    let servers = ServerIds::new(&app);
    let (filter, page) = (query.filter(&grant, &servers)?, page.request()?);
    let page = store_of(&app)?.calls(&filter, &page).await?;
    let to_entry = move |call| entry::from_record(call, &servers);
    let calls = convert_records(&grant, page.items, entry::bytes, to_entry);
    Ok(Json(ToolCallList {
        success: true,
        calls: calls.await,
        next: page.next.map(|cursor| cursor.to_string()),
    }))
}

/// Return the number of calls, success rate and latency of each tool.
///
/// For a token for one user, the statistics cover only the calls in which that user is verified.
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
) -> Result<Json<ToolCallStatistics>, RequestError> {
    let servers = ServerIds::new(&app);
    let filter = query.filter(&grant, &servers)?;
    let tools = store_of(&app)?.call_statistics(&filter).await?.into_iter();
    Ok(Json(ToolCallStatistics {
        success: true,
        tools: tools
            .map(|tool| entry::from_statistics(tool, &servers))
            .collect(),
    }))
}

/// Show a recorded call.
///
/// A token for one user sees only the calls in which that user is verified.
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
) -> Result<Json<ToolCallResponse>, RequestError> {
    let store = store_of(&app)?;
    let found = match id.parse::<CallId>() {
        Ok(id) => store.find_call(id).await?,
        Err(_) => None,
    };
    let call = found
        .filter(|call| grant.may_see_records_of(call.verified_user()))
        .ok_or(UnknownCall)?;
    Ok(Json(ToolCallResponse {
        success: true,
        call: entry::from_record(call, &ServerIds::new(&app)),
    }))
}

/// Returns the user whose records are requested. `own` is the only visible user, if set.
pub(super) fn only_of(
    own: Option<&str>,
    requested: Option<String>,
) -> Result<Option<String>, CallerError> {
    match (own, requested) {
        (Some(own), Some(requested)) if own != requested => Err(CallerError::OtherUser),
        (Some(own), _) => Ok(Some(own.to_owned())),
        (None, requested) => Ok(requested),
    }
}

fn parse_time(name: &'static str, text: Option<&str>) -> Result<Option<Timestamp>, RequestError> {
    let time: Option<jiff::Timestamp> = parsed(name, text, "a time such as 2026-11-21T18:00:00Z")?;
    Ok(time.map(|time| Timestamp::from_millis(time.as_millisecond())))
}
