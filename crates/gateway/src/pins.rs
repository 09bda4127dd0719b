//! Pins of the tools of MCP servers.
//!
//! A server can change a tool after it was reviewed, and the model reads instructions in the new
//! description. Pillion therefore stores the first definition of each tool as its pin. A different
//! definition is reported, or blocks the tool until an operator accepts the change. Tools that a
//! server lists for a single user are pinned for that user only.

mod definition;
mod difference;
mod hidden;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use pillion_core::store::{PendingDefinition, PinOwner, Store, StoreError, Timestamp, ToolPin};
use serde_json::value::RawValue;

use definition::Definition;
pub use difference::between;
pub use hidden::{visible, visible_json, visible_line, warnings};

use pillion_config::PinPolicy;

/// Maximum number of pins of one owner; further tools count as changed.
const MAX_PINS: usize = 10_000;

/// Compares the tools of servers with their pins. Cheap to clone.
#[derive(Clone, Default)]
pub struct Pins {
    store: Option<Arc<dyn Store>>,
}

impl Pins {
    /// Creates the pins over a store; without one, nothing is pinned.
    pub fn new(store: Option<Arc<dyn Store>>) -> Self {
        Self { store }
    }

    /// Returns the tools that must not be offered, by their names on the server.
    ///
    /// # Errors
    /// If the tools cannot be compared, under the policy [`PinPolicy::Block`].
    pub(crate) async fn blocked(
        &self,
        owner: PinOwner<'_>,
        policy: PinPolicy,
        tools: &[Box<RawValue>],
    ) -> Result<HashSet<String>, String> {
        let changed = match (&self.store, policy) {
            (_, PinPolicy::Off) | (None, PinPolicy::Warn) => return Ok(HashSet::new()),
            (None, PinPolicy::Block) => {
                return Err("pin = \"block\" needs a store, and this sidecar has none".to_owned());
            }
            (Some(store), _) => changed(&**store, owner, tools).await,
        };
        match (changed, policy) {
            (Ok(changed), PinPolicy::Block) => Ok(changed),
            (Ok(_), _) => Ok(HashSet::new()),
            (Err(error), PinPolicy::Block) => Err(format!(
                "cannot compare the server's tools with their pins: {error}"
            )),
            (Err(error), _) => {
                tracing::warn!(
                    server.label = owner.server, %error,
                    "Cannot compare the tools of an MCP server with their pins"
                );
                Ok(HashSet::new())
            }
        }
    }
}

/// Returns the tools that differ from their pins. Pins new tools, and records changed definitions.
async fn changed(
    store: &dyn Store,
    owner: PinOwner<'_>,
    tools: &[Box<RawValue>],
) -> Result<HashSet<String>, StoreError> {
    let pins = store.pins(owner).await?.into_iter();
    let mut pins: HashMap<String, ToolPin> = pins.map(|pin| (pin.tool.clone(), pin)).collect();
    let mut changed = HashSet::new();
    for definition in tools.iter().filter_map(|tool| Definition::read(tool)) {
        let Definition { name, text, hash } = definition;
        if !pins.contains_key(&name) {
            if pins.len() >= MAX_PINS {
                changed.insert(name);
                continue;
            }
            let new = ToolPin {
                server: owner.server.to_owned(),
                user: owner.user.map(str::to_owned),
                tool: name.clone(),
                hash: hash.clone(),
                definition: text.clone(),
                accepted_at: Timestamp::now(),
                pending: None,
            };
            pins.insert(name.clone(), store.insert_pin(&new).await?);
        }
        let pin = &pins[&name];
        let known = pin.pending.as_ref().map(|pending| &pending.hash);
        if pin.hash == hash {
            if known.is_some() && !changed.contains(&name) {
                store.set_pending_pin(owner, &name, None).await?;
            }
            continue;
        }
        if known != Some(&hash) {
            let pending = PendingDefinition {
                hash,
                definition: text,
                seen_at: Timestamp::now(),
            };
            let noted = store.set_pending_pin(owner, &name, Some(&pending));
            noted.await?;
            tracing::warn!(
                server.label = owner.server, user = owner.user, tool.name = %name,
                "The definition of a pinned tool has changed: see `pillion pins diff`"
            );
        }
        changed.insert(name);
    }
    Ok(changed)
}

/// Accepts the changed definition of a tool: the definition with this hash, or any without `hash`.
///
/// # Errors
/// `not_found`; `conflict` if there is no change to accept, or a change with another hash.
pub async fn accept(
    store: &dyn Store,
    owner: PinOwner<'_>,
    tool: &str,
    hash: Option<&str>,
) -> Result<(), StoreError> {
    let pin = store.pin(owner, tool).await?;
    let pin = pin.ok_or_else(|| StoreError::not_found("the tool is not pinned"))?;
    let nothing =
        || StoreError::conflict("the tool's definition has not changed since it was accepted");
    let pending = pin.pending.ok_or_else(nothing)?;
    let hash = hash.unwrap_or(&pending.hash);
    store.accept_pin(owner, tool, hash, Timestamp::now()).await
}

/// Returns the SHA-256 hash of the definition in an entry of `tools/list`, or `None` without a
/// name.
pub(crate) fn hash(entry: &RawValue) -> Option<String> {
    Definition::read(entry).map(|definition| definition.hash)
}

impl std::fmt::Debug for Pins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pins").finish_non_exhaustive()
    }
}
