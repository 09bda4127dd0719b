//! What the tools of MCP servers are accepted to be.
//!
//! A server can change what a tool is after somebody has looked at it: its description is read by
//! a model, and so is an instruction in it. The definition that was there first is kept; another
//! one is told of, or blocks the tool until an operator has accepted it. What a server lists for
//! one user alone is kept for that user alone: a list can be a user's own.

mod definition;
mod difference;
mod hidden;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use pillion_core::store::{PendingDefinition, PinOwner, Store, StoreError, Timestamp, ToolPin};
use serde_json::value::RawValue;

use definition::Definition;
pub(crate) use difference::between;
pub(crate) use hidden::{visible, visible_json, visible_line, warnings};

use crate::config::PinPolicy;

/// Tools of one owner that are kept; those beyond count as changed.
const MOST_PINS: usize = 10_000;

/// Checks what servers offer against what is kept. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Pins {
    store: Option<Arc<dyn Store>>,
}

impl Pins {
    pub(crate) fn new(store: Option<Arc<dyn Store>>) -> Self {
        Self { store }
    }

    /// The names, as the server has them, of those tools that must not be offered.
    ///
    /// # Errors
    /// Why it cannot be found out, under a policy that lets nothing pass unseen.
    pub(crate) async fn blocked(
        &self,
        owner: PinOwner<'_>,
        policy: PinPolicy,
        tools: &[Box<RawValue>],
    ) -> Result<HashSet<String>, String> {
        let changed = match (&self.store, policy) {
            (_, PinPolicy::Off) | (None, PinPolicy::Warn) => return Ok(HashSet::new()),
            (None, PinPolicy::Block) => {
                return Err("pin = \"block\" needs a store, and there is none".to_owned());
            }
            (Some(store), _) => changed(&**store, owner, tools).await,
        };
        match (changed, policy) {
            (Ok(changed), PinPolicy::Block) => Ok(changed),
            (Ok(_), _) => Ok(HashSet::new()),
            (Err(error), PinPolicy::Block) => Err(format!(
                "its tools cannot be compared with their pins: {error}"
            )),
            (Err(error), _) => {
                tracing::warn!(server.label = owner.server, %error, "Cannot compare tools with their pins");
                Ok(HashSet::new())
            }
        }
    }
}

/// The tools that are not what they are accepted to be. New ones are accepted, and what has
/// changed is noted.
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
            if pins.len() >= MOST_PINS {
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
                "A tool is another than it was: see `pillion pins diff`"
            );
        }
        changed.insert(name);
    }
    Ok(changed)
}

/// Accepts what a server offers now instead of what was accepted: the definition with this hash,
/// or whichever it is.
///
/// # Errors
/// `not_found`; `conflict` when nothing, or something else, waits to be accepted.
pub(crate) async fn accept(
    store: &dyn Store,
    owner: PinOwner<'_>,
    tool: &str,
    hash: Option<&str>,
) -> Result<(), StoreError> {
    let pin = store.pin(owner, tool).await?;
    let pin = pin.ok_or_else(|| StoreError::not_found("that tool is not pinned"))?;
    let nothing = || StoreError::conflict("the tool is what it was accepted to be");
    let pending = pin.pending.ok_or_else(nothing)?;
    let hash = hash.unwrap_or(&pending.hash);
    store.accept_pin(owner, tool, hash, Timestamp::now()).await
}

/// SHA-256 of what an entry of `tools/list` says that a tool is; none for one without a name.
pub(crate) fn hash(entry: &RawValue) -> Option<String> {
    Definition::read(entry).map(|definition| definition.hash)
}

impl std::fmt::Debug for Pins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pins").finish_non_exhaustive()
    }
}
