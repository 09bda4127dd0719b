//! The configured language models: what each model may see, and how its provider is called.

mod native;

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;

use async_trait::async_trait;
use indexmap::IndexMap;
use pillion_chat::{ChatLimits, HttpModel, KeySource, LanguageModel, ModelError, ModelErrorKind};
use pillion_core::capability::ModelConfig;
use pillion_core::store::SecretKind;
use pillion_core::variable;
use pillion_providers::Provider;
use secrecy::SecretString;

use crate::credentials::UserCredentials;
use native::NativeEndpoint;
pub use native::NativeTools;
use pillion_config::{ChatSection, Config, ModelSection, ProviderSection};

/// All models, in the order of the configuration.
#[derive(Debug)]
pub struct Models {
    models: IndexMap<String, Model>,
    providers: Vec<ProviderSection>,
    chat: ChatSection,
}

/// A configured model.
#[derive(Clone)]
pub struct Model {
    /// The model's name and tool settings.
    pub config: Arc<ModelConfig>,
    /// The client of the model's provider, or the reason why the model has no client.
    pub client: Result<Arc<dyn LanguageModel>, Arc<ModelError>>,
    /// The API of the model's provider; `None` if the provider is not configured.
    pub api: Option<Provider>,
    /// The names of further parameters that are forwarded to the provider if a request contains
    /// them.
    pub extra_parameters: Arc<[String]>,
    /// The MCP servers that the model's provider calls directly.
    native_endpoints: Vec<NativeEndpoint>,
    context_tokens: Option<NonZeroU64>,
    /// The maximum number of tokens in a response.
    pub max_output_tokens: Option<NonZeroU64>,
}

impl Models {
    /// Creates the configured models with the clients of their providers.
    pub fn new(config: &Config, credentials: &UserCredentials) -> Self {
        let providers: BTreeMap<_, _> = config
            .providers
            .iter()
            .map(|provider| (provider.name.as_str(), provider))
            .collect();
        let build_model = |section: &ModelSection| {
            let name = section.config.provider.as_deref();
            let provider = name.and_then(|name| providers.get(name).copied());
            let client = match provider {
                Some(provider) => create_client(provider, section, credentials).map_err(Arc::new),
                None => Err(Arc::new(missing_provider_error(section))),
            };
            let servers = config.mcp_servers.iter();
            let native_servers = servers.filter(|server| {
                // Only servers of the configuration file are selected, because an operator must
                // decide what a provider may call.
                let mut native_labels = section.native_mcp.iter();
                server.settings.enabled
                    && server.id.is_none()
                    && native_labels.any(|label| label == server.label())
            });
            let native_endpoints = native_servers.filter_map(NativeEndpoint::from_section);
            let model = Model {
                native_endpoints: native_endpoints.collect(),
                config: Arc::clone(&section.config),
                client,
                api: provider.map(ProviderSection::api),
                extra_parameters: provider.map_or_else(Default::default, |provider| {
                    provider.extra_parameters.as_slice().into()
                }),
                context_tokens: section.context_tokens,
                max_output_tokens: section.max_output_tokens,
            };
            (section.config.id.clone(), model)
        };
        Self {
            models: config.models.iter().map(build_model).collect(),
            providers: config.providers.clone(),
            chat: config.chat.clone(),
        }
    }

    /// Returns the model with this name.
    pub fn get(&self, id: &str) -> Option<&Model> {
        self.models.get(id)
    }

    /// Returns the default model: the model in `chat.model`, or else the first model with a
    /// configured provider.
    pub fn default(&self) -> Option<&Model> {
        match &self.chat.model {
            Some(id) => self.get(id),
            None => self.iter().find(|model| model.api.is_some()),
        }
    }

    /// Returns all models, in the order of the configuration.
    pub fn iter(&self) -> impl Iterator<Item = &Model> {
        self.models.values()
    }

    /// Returns the configured providers.
    pub fn providers(&self) -> &[ProviderSection] {
        &self.providers
    }

    /// Returns the configuration of chats.
    pub fn chat(&self) -> &ChatSection {
        &self.chat
    }

    /// Returns the limits of a chat with this model.
    pub fn limits(&self, model: &Model) -> ChatLimits {
        self.chat.limits(model.context_tokens)
    }
}

/// Creates the client of a model's provider.
fn create_client(
    provider: &ProviderSection,
    section: &ModelSection,
    credentials: &UserCredentials,
) -> Result<Arc<dyn LanguageModel>, ModelError> {
    let mut config = provider.model(&section.model);
    config.reasoning = section.reasoning;
    let config = match provider.key_env.clone() {
        Some(variable) => config.with_key(KeyInVariable(variable)),
        None => config.with_key(KeyInVault {
            provider: provider.name.clone(),
            credentials: credentials.clone(),
        }),
    };
    Ok(Arc::new(HttpModel::new(config)?))
}

fn missing_provider_error(section: &ModelSection) -> ModelError {
    let id = &section.config.id;
    let message = match &section.config.provider {
        Some(name) => format!(
            "Model '{id}' has the provider '{name}', which is not configured: add a [[providers]] \
             entry with this name"
        ),
        None => {
            format!("Model '{id}' has no provider: set provider in the model's [[models]] entry")
        }
    };
    ModelError::new(ModelErrorKind::Unavailable, message)
}

/// An API key in an environment variable.
struct KeyInVariable(String);

#[async_trait]
impl KeySource for KeyInVariable {
    async fn key(&self) -> Result<Option<SecretString>, ModelError> {
        let Some(value) = read_key(&self.0) else {
            let message = format!(
                "The provider's API key is missing: {} is not set for `pillion serve`: set the \
                 variable and restart the sidecar",
                variable::describe(&self.0)
            );
            return Err(ModelError::new(ModelErrorKind::Unauthorized, message));
        };
        Ok(Some(value))
    }
}

/// Returns the key in an environment variable, if the variable is set and not blank.
pub fn read_key(variable: &str) -> Option<SecretString> {
    let value = std::env::var(variable).ok()?;
    (!value.trim().is_empty()).then(|| value.into())
}

/// An API key in the vault, if one is stored.
struct KeyInVault {
    provider: String,
    credentials: UserCredentials,
}

#[async_trait]
impl KeySource for KeyInVault {
    async fn key(&self) -> Result<Option<SecretString>, ModelError> {
        let Some(vault) = self.credentials.vault() else {
            return Ok(None);
        };
        let key = vault.get(SecretKind::ProviderKey, &self.provider).await;
        key.map_err(|error| {
            let provider = &self.provider;
            let message = format!("Cannot read the API key of provider '{provider}': {error}");
            ModelError::new(ModelErrorKind::Unavailable, message)
        })
    }
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Model")
            .field("config", &self.config)
            .field("api", &self.api)
            .finish_non_exhaustive()
    }
}
