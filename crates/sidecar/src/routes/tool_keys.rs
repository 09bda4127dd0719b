//! Routes under `/api/v1/tool-keys`: the API keys of the services that built-in tools use.

use axum::Json;
use axum::extract::State;
use pillion_core::store::SecretKind;
use pillion_wire::{ProviderKeyInput, ToolKeyEntry, ToolKeyList, route};

use super::extract::ObjectBody;
use super::parameters::PathParameter;
use super::vault_keys::{list_keys, remove_key, store_key, vault};
use crate::app::App;
use pillion_config::ServiceKey;
use pillion_gateway::client_text::truncate_input;
use pillion_gateway::credentials::CredentialError;
use pillion_gateway::tool_keys::{is_key_of, vault_id};
use pillion_management::error::{CONFLICT, NOT_FOUND, Result, route_error};

/// The tools whose services need an API key, and the names of those services.
const KEYED_SERVICES: [(&str, &str); 2] = [
    ("get_weather", "openweathermap"),
    ("web_search", "google, brave"),
];

route_error! {
    /// The reason why the API key of a tool's service cannot be changed.
    #[derive(Debug, thiserror::Error)]
    enum ToolKeyError {
        #[error("There is no built-in tool '{tool}' whose service needs an API key")]
        UnknownTool { tool: String } => NOT_FOUND,
        #[error(
            "The tool {tool} has no provider that needs an API key: set tools.{tool}.provider \
             ({providers})"
        )]
        NoKeyedProvider {
            tool: &'static str,
            providers: &'static str,
        } => NOT_FOUND,
        #[error("The key of the tool {tool} comes from an environment variable")]
        KeyInVariable { tool: &'static str } => CONFLICT,
    }
}

/// List the built-in tools whose service uses an API key.
///
/// Key values are never returned.
#[utoipa::path(
    get,
    path = route::LIST_TOOL_KEYS.path,
    responses(
        (status = 200, description = "The tools", body = ToolKeyList),
        (status = 503, description = "The vault is not readable"),
    )
)]
pub(super) async fn list(State(app): State<App>) -> Result<Json<ToolKeyList>> {
    Ok(Json(list_tools(&app).await?))
}

/// Store the API key of a tool in the vault.
///
/// Replaces the stored key; new calls use the new key at once. Fails for a tool whose key comes
/// from an environment variable.
#[utoipa::path(
    put,
    path = route::SET_TOOL_KEY.path,
    params(("tool" = String, Path, description = "The tool's name")),
    request_body(content = ProviderKeyInput, content_type = "application/json", example = json!({"key": "..."})),
    responses(
        (status = 200, description = "The key is stored", body = ToolKeyList),
        (status = 400, description = "The key is invalid"),
        (status = 403, description = "The vault has no encryption key"),
        (status = 404, description = "Tool not found, or the tool's service needs no key"),
        (status = 409, description = "The tool's key comes from an environment variable"),
        (status = 503, description = "The store is not writable"),
    )
)]
pub(super) async fn set(
    State(app): State<App>,
    PathParameter(name): PathParameter,
    ObjectBody(input): ObjectBody<ProviderKeyInput>,
) -> Result<Json<ToolKeyList>> {
    let id = vault_id(find_key(&app, &name)?);
    store_key(&app, SecretKind::ToolKey, &id, &input).await?;
    Ok(Json(list_tools(&app).await?))
}

/// Remove the API key of a tool from the vault.
#[utoipa::path(
    delete,
    path = route::REMOVE_TOOL_KEY.path,
    params(("tool" = String, Path, description = "The tool's name")),
    responses(
        (status = 200, description = "The key is removed", body = ToolKeyList),
        (status = 403, description = "The vault has no encryption key"),
        (status = 404, description = "Tool not found, or the tool's service needs no key"),
        (status = 409, description = "The tool's key comes from an environment variable"),
        (status = 503, description = "The store is not writable"),
    )
)]
pub(super) async fn remove(
    State(app): State<App>,
    PathParameter(name): PathParameter,
) -> Result<Json<ToolKeyList>> {
    vault(&app)?;
    // Removes the tool's keys for all services, because the tool may also have stored keys of
    // services that it used before.
    let mut ids = list_keys(&app, SecretKind::ToolKey).await?;
    ids.retain(|id| is_key_of(id, &name));
    if ids.is_empty() {
        find_key(&app, &name)?;
    }
    for id in ids {
        remove_key(&app, SecretKind::ToolKey, &id).await?;
    }
    Ok(Json(list_tools(&app).await?))
}

async fn list_tools(app: &App) -> Result<ToolKeyList, CredentialError> {
    let vault_ids = list_keys(app, SecretKind::ToolKey).await?;
    let to_entry = |key: &ServiceKey| ToolKeyEntry {
        tool: key.tool.to_owned(),
        service: key.service.to_owned(),
        key: if !key.is_in_vault {
            "variable".to_owned()
        } else if vault_ids.contains(&vault_id(key)) {
            "vault".to_owned()
        } else {
            "none".to_owned()
        },
    };
    Ok(ToolKeyList {
        success: true,
        tools: app.tool_keys().iter().map(to_entry).collect(),
    })
}

/// Returns the key that the tool's service needs, if the configuration allows it in the vault.
fn find_key<'a>(app: &'a App, name: &str) -> Result<&'a ServiceKey, ToolKeyError> {
    match app.tool_keys().get(name) {
        None => match KEYED_SERVICES.iter().find(|(tool, _)| *tool == name) {
            Some(&(tool, providers)) => Err(ToolKeyError::NoKeyedProvider { tool, providers }),
            None => Err(ToolKeyError::UnknownTool {
                tool: truncate_input(name),
            }),
        },
        Some(key) if key.is_in_vault => Ok(key),
        Some(key) => Err(ToolKeyError::KeyInVariable { tool: key.tool }),
    }
}
