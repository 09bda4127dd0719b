//! Routes under `/api/v1/providers`: the language model providers and their API keys.

use axum::Json;
use axum::extract::State;
use pillion_core::store::SecretKind;
use pillion_core::variable;
use pillion_wire::{ProviderEntry, ProviderKeyInput, ProviderList, route};

use super::extract::ObjectBody;
use super::parameters::PathParameter;
use super::vault_keys::{self, list_keys, store_key};
use crate::app::App;
use pillion_config::ProviderSection;
use pillion_gateway::client_text::truncate_input;
use pillion_gateway::credentials::CredentialError;
use pillion_gateway::models::read_key;
use pillion_management::error::{CONFLICT, NOT_FOUND, Result, route_error};

route_error! {
    /// The reason why the API key of a provider cannot be changed.
    #[derive(Debug, thiserror::Error)]
    enum ProviderKeyError {
        #[error("There is no provider '{name}': the configuration has {}", join_names(.provider_names))]
        Unknown { name: String, provider_names: Vec<String> } => NOT_FOUND,
        #[error("The key of the provider '{name}' comes from {}", variable::describe(.key_env))]
        KeyInVariable { name: String, key_env: String } => CONFLICT,
    }
}

/// Returns the names, separated by commas, or `none` if there are no names.
fn join_names(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    }
}

/// List the language model providers.
///
/// Key values are never returned.
#[utoipa::path(
    get,
    path = route::LIST_PROVIDERS.path,
    responses(
        (status = 200, description = "The providers", body = ProviderList),
        (status = 503, description = "The vault is not readable"),
    )
)]
pub(super) async fn list(State(app): State<App>) -> Result<Json<ProviderList>> {
    Ok(Json(list_providers(&app).await?))
}

/// Store a provider's API key in the vault.
///
/// Replaces the stored key; new requests use the new key at once. Fails for a provider whose key
/// comes from an environment variable (`key_env`).
#[utoipa::path(
    put,
    path = route::SET_PROVIDER_KEY.path,
    params(("name" = String, Path, description = "The provider's name")),
    request_body(content = ProviderKeyInput, content_type = "application/json", example = json!({"key": "..."})),
    responses(
        (status = 200, description = "The key is stored", body = ProviderList),
        (status = 400, description = "The key is invalid"),
        (status = 403, description = "The vault has no encryption key"),
        (status = 404, description = "Provider not found"),
        (status = 409, description = "The provider's key comes from an environment variable"),
        (status = 503, description = "The store is not writable"),
    )
)]
pub(super) async fn set_key(
    State(app): State<App>,
    PathParameter(name): PathParameter,
    ObjectBody(input): ObjectBody<ProviderKeyInput>,
) -> Result<Json<ProviderList>> {
    find_provider(&app, &name)?;
    store_key(&app, SecretKind::ProviderKey, &name, &input).await?;
    Ok(Json(list_providers(&app).await?))
}

/// Remove a provider's API key from the vault.
#[utoipa::path(
    delete,
    path = route::REMOVE_PROVIDER_KEY.path,
    params(("name" = String, Path, description = "The provider's name")),
    responses(
        (status = 200, description = "The key is removed", body = ProviderList),
        (status = 403, description = "The vault has no encryption key"),
        (status = 404, description = "Provider not found"),
        (status = 409, description = "The provider's key comes from an environment variable"),
        (status = 503, description = "The store is not writable"),
    )
)]
pub(super) async fn remove_key(
    State(app): State<App>,
    PathParameter(name): PathParameter,
) -> Result<Json<ProviderList>> {
    find_provider(&app, &name)?;
    vault_keys::remove_key(&app, SecretKind::ProviderKey, &name).await?;
    Ok(Json(list_providers(&app).await?))
}

async fn list_providers(app: &App) -> Result<ProviderList, CredentialError> {
    let names_in_vault = list_keys(app, SecretKind::ProviderKey).await?;
    let to_entry = |provider: &ProviderSection| ProviderEntry {
        name: provider.name.clone(),
        api: provider.api().to_string(),
        host: provider.host(),
        key: match &provider.key_env {
            Some(variable) if read_key(variable).is_some() => "variable",
            Some(_) => "none",
            None if names_in_vault.contains(&provider.name) => "vault",
            None => "none",
        }
        .to_owned(),
        key_env: provider.key_env.clone(),
    };
    Ok(ProviderList {
        success: true,
        providers: app.models().providers().iter().map(to_entry).collect(),
    })
}

/// Returns the provider with this name, whose key may be in the vault.
fn find_provider<'a>(app: &'a App, name: &str) -> Result<&'a ProviderSection, ProviderKeyError> {
    let providers = app.models().providers();
    let Some(provider) = providers.iter().find(|provider| provider.name == name) else {
        return Err(ProviderKeyError::Unknown {
            name: truncate_input(name),
            provider_names: providers
                .iter()
                .map(|provider| provider.name.clone())
                .collect(),
        });
    };
    match &provider.key_env {
        None => Ok(provider),
        Some(key_env) => Err(ProviderKeyError::KeyInVariable {
            name: provider.name.clone(),
            key_env: key_env.clone(),
        }),
    }
}
