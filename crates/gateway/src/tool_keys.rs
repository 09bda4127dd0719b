//! The built-in tools whose API keys are in the vault. The key is read for each call, so that a new
//! key applies at once.

use std::sync::Arc;

use parking_lot::Mutex;
use pillion_core::store::SecretKind;
use pillion_core::tool::{
    CallContext, ErrorCode, JsonObject, Tool, ToolDefinition, ToolFailure, ToolFuture,
};
use secrecy::{ExposeSecret, SecretString};

use crate::credentials::UserCredentials;
use pillion_config::{BuiltinTools, ServiceKey};

/// Returns the ID of a key in the vault. The ID includes tool and service, so that a key is sent
/// only to the service for which it was set.
pub fn vault_id(key: &ServiceKey) -> String {
    format!("{}:{}", key.tool, key.service)
}

/// Returns whether `id` is the ID of one of the tool's keys in the vault.
pub fn is_key_of(id: &str, tool: &str) -> bool {
    id.split_once(':').is_some_and(|(owner, _)| owner == tool)
}

/// A function that creates the tool with an API key.
type ToolFactory = Box<dyn Fn(SecretString) -> Arc<dyn Tool> + Send + Sync>;

/// A tool whose key is in the vault.
pub(crate) struct KeyedTool {
    key: ServiceKey,
    credentials: UserCredentials,
    definition: ToolDefinition,
    create_tool: ToolFactory,
    /// The latest key, and the tool that was created with it.
    cached_entry: Mutex<Option<(SecretString, Arc<dyn Tool>)>>,
}

impl KeyedTool {
    pub(crate) fn new(
        key: ServiceKey,
        credentials: UserCredentials,
        create_tool: impl Fn(SecretString) -> Arc<dyn Tool> + Send + Sync + 'static,
    ) -> Self {
        Self {
            key,
            credentials,
            // The definition does not depend on the key, so it is taken from a tool that was
            // created with an empty key.
            definition: create_tool(SecretString::default()).definition().clone(),
            create_tool: Box::new(create_tool),
            cached_entry: Mutex::new(None),
        }
    }

    /// Creates the tool with the current key in the vault, or returns the cached tool.
    async fn load_tool(&self) -> Result<Arc<dyn Tool>, ToolFailure> {
        let to_failure = |message| ToolFailure::new(ErrorCode::Unavailable, message);
        let ServiceKey { tool, service, .. } = self.key;
        let key = match self.credentials.vault() {
            None => None,
            Some(vault) => {
                let key = vault.get(SecretKind::ToolKey, &vault_id(&self.key)).await;
                key.map_err(|error| {
                    to_failure(format!("Cannot read the API key of tool '{tool}': {error}"))
                })?
            }
        };
        let Some(key) = key else {
            return Err(to_failure(format!(
                "The vault has no API key for {service}: set it with `pillion tools set-key {tool}`"
            )));
        };
        let mut cached_entry = self.cached_entry.lock();
        if let Some((cached_key, cached_tool)) = &*cached_entry
            && cached_key.expose_secret() == key.expose_secret()
        {
            return Ok(Arc::clone(cached_tool));
        }
        let tool = (self.create_tool)(key.clone());
        *cached_entry = Some((key, Arc::clone(&tool)));
        Ok(tool)
    }
}

impl Tool for KeyedTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn call(self: Arc<Self>, arguments: JsonObject, context: CallContext) -> ToolFuture {
        Box::pin(async move { self.load_tool().await?.call(arguments, context).await })
    }
}

/// The keys that the built-in tools need, and where each key comes from.
#[derive(Debug, Clone, Default)]
pub struct ToolKeys(Vec<ServiceKey>);

impl ToolKeys {
    /// Returns the keys that the tools in `builtins` need.
    pub fn new(builtins: &BuiltinTools) -> Self {
        Self(builtins.keys.clone())
    }

    /// Returns the keys of all tools.
    pub fn iter(&self) -> impl Iterator<Item = &ServiceKey> {
        self.0.iter()
    }

    /// Returns the key that a tool needs; `None` for a tool without a key.
    pub fn get(&self, tool: &str) -> Option<&ServiceKey> {
        self.iter().find(|key| key.tool == tool)
    }
}
