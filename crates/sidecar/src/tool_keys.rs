//! Keys of services that built-in tools ask, where the vault has them (L1): they are read for each
//! call, so that another one counts at once.

use std::sync::Arc;

use parking_lot::Mutex;
use pillion_core::store::SecretKind;
use pillion_core::tool::{
    CallContext, ErrorCode, JsonObject, Tool, ToolDefinition, ToolFailure, ToolFuture,
};
use secrecy::{ExposeSecret, SecretString};

use crate::config::{BuiltinTools, ServiceKey};
use crate::credentials::UserCredentials;

/// Where the vault has the key: by tool and service, so that none goes to another service than the
/// one that it was given for.
pub(crate) fn vault_id(key: &ServiceKey) -> String {
    format!("{}:{}", key.tool, key.service)
}

/// Whether that is where the vault has, or had, a key of the tool's.
pub(crate) fn is_of(id: &str, tool: &str) -> bool {
    id.split_once(':').is_some_and(|(of, _)| of == tool)
}

/// Makes the tool that has this key.
type Make = Box<dyn Fn(SecretString) -> Arc<dyn Tool> + Send + Sync>;

/// A tool whose key the vault has.
pub(crate) struct KeyedTool {
    key: ServiceKey,
    vault: UserCredentials,
    definition: ToolDefinition,
    make: Make,
    /// The tool as it was made last, with the key that it has.
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
            // Which key it is makes no difference to what the tool says of itself.
            definition: make(SecretString::default()).definition().clone(),
            make: Box::new(make),
            made: Mutex::new(None),
        }
    }

    /// The tool with the key that the vault has now.
    async fn tool(&self) -> Result<Arc<dyn Tool>, ToolFailure> {
        let unavailable = |message| ToolFailure::new(ErrorCode::Unavailable, message);
        let ServiceKey { tool, service, .. } = self.key;
        let key = match self.vault.vault() {
            None => None,
            Some(vault) => {
                let key = vault.get(SecretKind::ToolKey, &vault_id(&self.key)).await;
                key.map_err(|error| unavailable(format!("The key of {tool}: {error}")))?
            }
        };
        let Some(key) = key else {
            return Err(unavailable(format!(
                "The vault has no key for {service}: `pillion tools set-key {tool}`"
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

/// The keys that the built-in tools want, and where each comes from.
#[derive(Debug, Clone, Default)]
pub(crate) struct ToolKeys(Vec<ServiceKey>);

impl ToolKeys {
    pub(crate) fn of(builtins: &BuiltinTools) -> Self {
        Self(builtins.keys.clone())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &ServiceKey> {
        self.0.iter()
    }

    /// That of a tool.
    pub(crate) fn get(&self, tool: &str) -> Option<&ServiceKey> {
        self.iter().find(|key| key.tool == tool)
    }
}
