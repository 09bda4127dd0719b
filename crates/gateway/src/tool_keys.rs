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

/// Returns the id of a key in the vault. The id includes tool and service, so that a key is never
/// sent to another service than the one for which it was set.
pub fn vault_id(key: &ServiceKey) -> String {
    format!("{}:{}", key.tool, key.service)
}

/// Returns whether `id` is the id of one of the tool's keys in the vault.
pub fn is_of(id: &str, tool: &str) -> bool {
    id.split_once(':').is_some_and(|(of, _)| of == tool)
}

/// Creates the tool with a key.
type ToolFactory = Box<dyn Fn(SecretString) -> Arc<dyn Tool> + Send + Sync>;

/// A tool whose key is in the vault.
pub(crate) struct KeyedTool {
    key: ServiceKey,
    vault: UserCredentials,
    definition: ToolDefinition,
    make: ToolFactory,
    /// The latest key, and the tool that was created with it.
    made: Mutex<Option<(SecretString, Arc<dyn Tool>)>>,
}

impl KeyedTool {
    pub(crate) fn new(
        key: ServiceKey,
        vault: UserCredentials,
        make: impl Fn(SecretString) -> Arc<dyn Tool> + Send + Sync + 'static,
    ) -> Self {
        Self {
            key,
            vault,
            // The definition does not depend on the key.
            definition: make(SecretString::default()).definition().clone(),
            make: Box::new(make),
            made: Mutex::new(None),
        }
    }

    /// Returns the tool with the current key in the vault.
    async fn tool(&self) -> Result<Arc<dyn Tool>, ToolFailure> {
        let unavailable = |message| ToolFailure::new(ErrorCode::Unavailable, message);
        let ServiceKey { tool, service, .. } = self.key;
        let key = match self.vault.vault() {
            None => None,
            Some(vault) => {
                let key = vault.get(SecretKind::ToolKey, &vault_id(&self.key)).await;
                key.map_err(|error| {
                    unavailable(format!("Cannot read the API key of tool '{tool}': {error}"))
                })?
            }
        };
        let Some(key) = key else {
            return Err(unavailable(format!(
                "The vault has no API key for {service}: set it with `pillion tools set-key {tool}`"
            )));
        };
        let mut made = self.made.lock();
        if let Some((known, made)) = &*made
            && known.expose_secret() == key.expose_secret()
        {
            return Ok(Arc::clone(made));
        }
        let tool = (self.make)(key.clone());
        *made = Some((key, Arc::clone(&tool)));
        Ok(tool)
    }
}

impl Tool for KeyedTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn call(self: Arc<Self>, arguments: JsonObject, context: CallContext) -> ToolFuture {
        Box::pin(async move { self.tool().await?.call(arguments, context).await })
    }
}

/// The keys that the built-in tools need, and where each key comes from.
#[derive(Debug, Clone, Default)]
pub struct ToolKeys(Vec<ServiceKey>);

impl ToolKeys {
    /// Returns the keys that these built-in tools need.
    pub fn new(builtins: &BuiltinTools) -> Self {
        Self(builtins.keys.clone())
    }

    /// Returns the keys of all tools.
    pub fn iter(&self) -> impl Iterator<Item = &ServiceKey> {
        self.0.iter()
    }

    /// Returns the key of a tool.
    pub fn get(&self, tool: &str) -> Option<&ServiceKey> {
        self.iter().find(|key| key.tool == tool)
    }
}
