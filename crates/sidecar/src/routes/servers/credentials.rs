use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use pillion_wire::{ServerRemoved, UserCredentialAnswer, UserCredentialInput, UserCredentialList};

use super::{Keys, ServerKey, servers_of, to_the_end};
use crate::app::App;
use crate::credentials::CredentialError;
use crate::routes::error::RequestError;

/// The ID or name of a server, and the name of a user, in the path.
pub(in crate::routes) struct OfUser {
    server: String,
    user: String,
}

impl FromRequestParts<App> for OfUser {
    type Rejection = RequestError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, RequestError> {
        let path: Result<Path<(String, String)>, PathRejection> =
            Path::from_request_parts(parts, app).await;
        match path {
            Ok(Path((server, user))) => Ok(Self { server, user }),
            Err(_) => Err(CredentialError::NoUserCredential.into()),
        }
    }
}

/// Lists the users who have a credential for an MCP server.
#[utoipa::path(
    get,
    path = "/api/v1/servers/{id}/credentials",
    tag = "servers",
    operation_id = "credentials_list",
    summary = "List the users who have a credential for an MCP server",
    description = "What the credentials are nobody is told.",
    params(("id" = String, Path, description = "The server's id or name")),
    responses(
        (status = 200, description = "The users", body = UserCredentialList),
        (status = 404, description = "Server not found"),
        (status = 503, description = "This sidecar keeps no servers, or the store cannot be read"),
    )
)]
pub(in crate::routes) async fn list(
    State(app): State<App>,
    ServerKey(key): ServerKey,
) -> Result<Json<UserCredentialList>, RequestError> {
    let credentials = servers_of(&app)?.credentials(&key).await?;
    Ok(Json(UserCredentialList {
        success: true,
        total: credentials.len(),
        credentials,
    }))
}

/// Sets a user's credential for an MCP server.
#[utoipa::path(
    put,
    path = "/api/v1/servers/{id}/credentials/{user}",
    tag = "servers",
    operation_id = "credentials_set",
    summary = "Give a user a credential for an MCP server",
    description = "In the place of the one before. Calls on behalf of this user go out with it from now on. It is for the address that the server has now, and goes to no other.",
    params(
        ("id" = String, Path, description = "The server's id or name"),
        ("user" = String, Path, description = "The user's name, as calls have it", min_length = 1)
    ),
    request_body(
        content = UserCredentialInput,
        content_type = "application/json",
        example = json!({"authentication": {"type": "bearer", "token": "..."}})
    ),
    responses(
        (status = 200, description = "The user has it", body = UserCredentialAnswer),
        (status = 400, description = "It is no credential"),
        (status = 403, description = "There is no key to encrypt it with"),
        (status = 404, description = "Server not found"),
        (status = 409, description = "Calls of this server go out with its own credential"),
        (status = 503, description = "The store cannot be written to"),
    )
)]
pub(in crate::routes) async fn set(
    State(app): State<App>,
    OfUser { server, user }: OfUser,
    Keys(keys): Keys,
) -> Result<Json<UserCredentialAnswer>, RequestError> {
    let servers = servers_of(&app)?;
    let set = async move { servers.set_credential(&server, &user, keys).await };
    Ok(Json(UserCredentialAnswer {
        success: true,
        credential: to_the_end(set).await?,
    }))
}

/// Removes a user's credential for an MCP server.
#[utoipa::path(
    delete,
    path = "/api/v1/servers/{id}/credentials/{user}",
    tag = "servers",
    operation_id = "credentials_remove",
    summary = "Take a user's credential for an MCP server away",
    description = "The next call on behalf of this user goes out without it.",
    params(
        ("id" = String, Path, description = "The server's id or name"),
        ("user" = String, Path, description = "The user's name, as calls have it", min_length = 1)
    ),
    responses(
        (status = 200, description = "It is gone", body = ServerRemoved),
        (status = 403, description = "There is no key to read it with"),
        (status = 404, description = "There is no such server, or the user has none"),
        (status = 503, description = "The store cannot be written to"),
    )
)]
pub(in crate::routes) async fn remove(
    State(app): State<App>,
    OfUser { server, user }: OfUser,
) -> Result<Json<ServerRemoved>, RequestError> {
    let servers = servers_of(&app)?;
    let removed = user.clone();
    to_the_end(async move { servers.remove_credential(&server, &user).await }).await?;
    Ok(Json(ServerRemoved {
        success: true,
        removed,
    }))
}
