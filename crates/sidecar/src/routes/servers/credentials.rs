use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use axum::{Extension, Json};
use pillion_wire::{
    ServerRemoved, UserCredentialInput, UserCredentialList, UserCredentialResponse, route,
};

use super::{PathParameter, ServerSettingsBody, require_servers};
use crate::app::App;
use pillion_gateway::access::AccessGrant;
use pillion_gateway::credentials::CredentialError;
use pillion_management::error::{RequestError, Result};
use pillion_management::servers::run_to_completion;

/// The path of a user's credential: the ID or name of the server, and the name of the user.
pub(in crate::routes) struct UserCredentialPath {
    server: String,
    user: String,
}

impl FromRequestParts<App> for UserCredentialPath {
    type Rejection = RequestError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self> {
        let path: Result<Path<(String, String)>, PathRejection> =
            Path::from_request_parts(parts, app).await;
        match path {
            Ok(Path((server, user))) => Ok(Self { server, user }),
            Err(_) => Err(CredentialError::NoUserCredential.into()),
        }
    }
}

/// List the users who have a credential for an MCP server.
///
/// Credential values are never returned. A token for a single user sees only this user.
#[utoipa::path(
    get,
    path = route::LIST_SERVER_CREDENTIALS.path,
    params(("id" = String, Path, description = "The server's ID or name")),
    responses(
        (status = 200, description = "The users", body = UserCredentialList),
        (status = 404, description = "Server not found"),
        (status = 503, description = "The sidecar has no store, or the store is not readable"),
    )
)]
pub(in crate::routes) async fn list(
    State(app): State<App>,
    Extension(grant): Extension<AccessGrant>,
    PathParameter(key): PathParameter,
) -> Result<Json<UserCredentialList>> {
    let credentials = require_servers(&app)?.credentials(&grant, &key).await?;
    Ok(Json(UserCredentialList {
        success: true,
        total: credentials.len(),
        credentials,
    }))
}

/// Store a user's credential for an MCP server.
///
/// Replaces the user's stored credential; new calls for the user use the new credential at once.
/// The credential is bound to the scheme, host and port of the server's current URL, and is never
/// sent anywhere else.
#[utoipa::path(
    put,
    path = route::SET_SERVER_CREDENTIAL.path,
    params(
        ("id" = String, Path, description = "The server's ID or name"),
        ("user" = String, Path, description = "The user's name, as in the `x-pillion-user` header of calls", min_length = 1)
    ),
    request_body(
        content = UserCredentialInput,
        content_type = "application/json",
        example = json!({"authentication": {"type": "bearer", "token": "..."}})
    ),
    responses(
        (status = 200, description = "The credential is stored", body = UserCredentialResponse),
        (status = 400, description = "The credential is invalid"),
        (status = 403, description = "The vault has no encryption key, or the token is for another user"),
        (status = 404, description = "Server not found"),
        (status = 409, description = "The server does not use credentials of users: its calls use the server's own credential"),
        (status = 503, description = "The store is not writable"),
    )
)]
pub(in crate::routes) async fn set(
    State(app): State<App>,
    Extension(grant): Extension<AccessGrant>,
    UserCredentialPath { server, user }: UserCredentialPath,
    ServerSettingsBody(keys): ServerSettingsBody,
) -> Result<Json<UserCredentialResponse>> {
    let servers = require_servers(&app)?;
    let set_future = async move { servers.set_credential(&grant, &server, &user, keys).await };
    Ok(Json(UserCredentialResponse {
        success: true,
        credential: run_to_completion(set_future).await?,
    }))
}

/// Remove a user's credential for an MCP server.
///
/// Later calls for the user do not use the credential.
#[utoipa::path(
    delete,
    path = route::REMOVE_SERVER_CREDENTIAL.path,
    params(
        ("id" = String, Path, description = "The server's ID or name"),
        ("user" = String, Path, description = "The user's name, as in the `x-pillion-user` header of calls", min_length = 1)
    ),
    responses(
        (status = 200, description = "The credential is removed", body = ServerRemoved),
        (status = 403, description = "The vault has no encryption key, or the token is for another user"),
        (status = 404, description = "Server not found, or the user has no credential for it"),
        (status = 503, description = "The store is not writable"),
    )
)]
pub(in crate::routes) async fn remove(
    State(app): State<App>,
    Extension(grant): Extension<AccessGrant>,
    UserCredentialPath { server, user }: UserCredentialPath,
) -> Result<Json<ServerRemoved>> {
    let servers = require_servers(&app)?;
    let removed_user = user.clone();
    let remove_future = async move { servers.remove_credential(&grant, &server, &user).await };
    run_to_completion(remove_future).await?;
    Ok(Json(ServerRemoved {
        success: true,
        removed: removed_user,
    }))
}
