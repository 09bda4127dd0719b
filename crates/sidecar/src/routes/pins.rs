//! Routes under `/api/v1/pins`: the accepted definitions of the tools of MCP servers.

use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use axum::response::Response;
use axum::{Extension, Json};
use pillion_core::store::Verdict;
use pillion_gateway::access::AccessGrant;
use pillion_management::error::{NOT_FOUND, RequestError, Result, route_error};
use pillion_management::pins::{self, PinQuery, PinnedTool};
use pillion_wire::{AcceptPin, PinList, PinResponse, RejectPin, route};
use serde::Deserialize;

use super::etag::EntityTags;
use super::extract::OptionalBody;
use super::parameters::Parameters;
use crate::app::App;

route_error! {
    /// The path of a request is not valid UTF-8.
    #[derive(Debug, thiserror::Error)]
    #[error("The path is not valid UTF-8")]
    struct InvalidPath => NOT_FOUND
}

/// The query that names the user of a pin.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct PinOwnerQuery {
    /// The user for whom the server lists the tool, if the server lists tools per user.
    user: Option<String>,
}

/// The pin that the path and the query of a request name.
pub(super) struct PinPath {
    server: String,
    tool: String,
    user: Option<String>,
}

impl PinPath {
    fn tool(&self) -> PinnedTool<'_> {
        PinnedTool {
            server: &self.server,
            tool: &self.tool,
            user: self.user.as_deref(),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PinPath {
    type Rejection = RequestError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let Parameters(PinOwnerQuery { user }) = Parameters::from_uri(&parts.uri)?;
        let path = Path::from_request_parts(parts, state).await;
        let Path((server, tool)) = path.map_err(|_: PathRejection| InvalidPath)?;
        Ok(Self { server, tool, user })
    }
}

/// List the pinned tool definitions of MCP servers.
///
/// Pins of a user's personal tools are visible only to clients that may act on behalf of that user.
#[utoipa::path(
    get,
    path = route::LIST_PINS.path,
    params(
        PinQuery,
        ("if-none-match" = Option<String>, Header, description = "The `ETag` of the client's copy of the list")
    ),
    responses(
        (status = 200, description = "The pins", body = PinList),
        (status = 304, description = "The list has not changed"),
        (status = 400, description = "A parameter is invalid"),
        (status = 503, description = "The store is not readable"),
    )
)]
pub(super) async fn list(
    State(app): State<App>,
    Extension(grant): Extension<AccessGrant>,
    Parameters(query): Parameters<PinQuery>,
    client_tags: EntityTags,
) -> Result<Response> {
    client_tags.respond(&pins::list(&app, &grant, query).await?)
}

/// Show the accepted definition of a tool, and the changes since then.
#[utoipa::path(
    get,
    path = route::SHOW_PIN.path,
    params(
        ("server" = String, Path, description = "The server's label"),
        ("tool" = String, Path, description = "The tool's name on the server"),
        PinOwnerQuery,
    ),
    responses(
        (status = 200, description = "The pin", body = PinResponse),
        (status = 404, description = "Pin not found"),
        (status = 503, description = "The store is not readable"),
    )
)]
pub(super) async fn show(
    State(app): State<App>,
    Extension(grant): Extension<AccessGrant>,
    path: PinPath,
) -> Result<Json<PinResponse>> {
    Ok(Json(pins::find(&app, &grant, path.tool()).await?))
}

/// Accept the current definition of a tool.
///
/// Requests over TCP need a token with the scope `admin`.
#[utoipa::path(
    post,
    path = route::ACCEPT_PIN.path,
    params(
        ("server" = String, Path, description = "The server's label"),
        ("tool" = String, Path, description = "The tool's name on the server"),
        PinOwnerQuery,
    ),
    request_body(content = Option<AcceptPin>, content_type = "application/json"),
    responses(
        (status = 200, description = "The updated pin", body = PinResponse),
        (status = 400, description = "The request body is invalid"),
        (status = 404, description = "Pin not found"),
        (status = 409, description = "The definition has not changed, or `hash` is not that of the current definition"),
        (status = 503, description = "The store is not writable"),
    )
)]
pub(super) async fn accept(
    State(app): State<App>,
    Extension(grant): Extension<AccessGrant>,
    path: PinPath,
    OptionalBody(AcceptPin { hash }): OptionalBody<AcceptPin>,
) -> Result<Json<PinResponse>> {
    let verdict = Verdict::Approved;
    let response = pins::decide(&app, &grant, path.tool(), hash.as_deref(), verdict).await?;
    Ok(Json(response))
}

/// Reject the current definition of a tool.
///
/// The tool is blocked until the server offers another definition, or a request accepts the
/// rejected definition. Requests over TCP need a token with the scope `admin`.
#[utoipa::path(
    post,
    path = route::REJECT_PIN.path,
    params(
        ("server" = String, Path, description = "The server's label"),
        ("tool" = String, Path, description = "The tool's name on the server"),
        PinOwnerQuery,
    ),
    request_body(content = Option<RejectPin>, content_type = "application/json"),
    responses(
        (status = 200, description = "The updated pin", body = PinResponse),
        (status = 400, description = "The request body is invalid"),
        (status = 404, description = "Pin not found"),
        (status = 409, description = "The definition has not changed, or `hash` is not that of the current definition"),
        (status = 503, description = "The store is not writable"),
    )
)]
pub(super) async fn reject(
    State(app): State<App>,
    Extension(grant): Extension<AccessGrant>,
    path: PinPath,
    OptionalBody(RejectPin { hash }): OptionalBody<RejectPin>,
) -> Result<Json<PinResponse>> {
    let verdict = Verdict::Denied;
    let response = pins::decide(&app, &grant, path.tool(), hash.as_deref(), verdict).await?;
    Ok(Json(response))
}
