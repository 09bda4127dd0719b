//! Pins of the tools of MCP servers.
//!
//! A server can change a tool after it was reviewed, and the model reads instructions in the new
//! description. Pillion therefore stores the first definition of each tool as its pin. A different
//! definition is reported, or blocks the tool until an operator accepts the change. A renamed tool
//! is treated like a changed tool. A tool that a server adds later is accepted, or blocked like a
//! changed tool. Tools that a server lists for a single user are pinned for that user only.

mod comparison;
mod definition;
mod difference;
mod hidden;
mod likeness;

use std::collections::HashSet;
use std::sync::Arc;

pub(crate) use definition::Definition;
pub use difference::between;
pub use hidden::{visible, visible_json, visible_line, warnings};
use pillion_core::store::{PendingDefinition, PinOwner, Store, StoreError, Timestamp, ToolPin};

use comparison::compare;
use pillion_config::{NewToolPolicy, PinPolicy};

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

    /// Returns the names of the tools that are pinned for all users of a server. `None` if they are
    /// unknown: the rules pin no tools, there is no store, or the store cannot be read.
    pub(crate) async fn names(&self, server: &str, rules: PinRules) -> Option<HashSet<String>> {
        let store = self.store.as_ref().filter(|_| !rules.is_off())?;
        let owner = PinOwner { server, user: None };
        match store.pins(owner).await {
            Ok(pins) => Some(pins.into_iter().map(|pin| pin.tool).collect()),
            Err(error) => {
                tracing::warn!(
                    server.label = server, %error,
                    "Cannot read the pins of an MCP server"
                );
                None
            }
        }
    }

    /// Returns which of these tools must not be offered, by their names on the server.
    ///
    /// # Errors
    /// The tools cannot be compared, and the rules block any tool.
    pub(crate) async fn blocked(
        &self,
        owner: PinOwner<'_>,
        rules: PinRules,
        definitions: Vec<Definition>,
    ) -> Result<HashSet<String>, String> {
        let compared = match &self.store {
            _ if rules.is_off() => return Ok(HashSet::new()),
            None if !rules.can_block() => return Ok(HashSet::new()),
            None => {
                let why = "pin = \"block\" and new_tools = \"block\" need a store, and this sidecar \
                           has none";
                return Err(why.to_owned());
            }
            Some(store) => compare(&**store, owner, rules, definitions).await,
        };
        match compared {
            Ok(found) => Ok(found.blocked_by(rules)),
            Err(error) if rules.can_block() => Err(format!(
                "cannot compare the server's tools with their pins: {error}"
            )),
            Err(error) => {
                tracing::warn!(
                    server.label = owner.server, %error,
                    "Cannot compare the tools of an MCP server with their pins"
                );
                Ok(HashSet::new())
            }
        }
    }
}

/// What happens to tools of a server that changed or were added.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PinRules {
    pub(crate) changed: PinPolicy,
    pub(crate) new: NewToolPolicy,
}

impl PinRules {
    /// Returns whether tools are neither pinned nor compared.
    fn is_off(self) -> bool {
        self.changed == PinPolicy::Off && self.new == NewToolPolicy::Accept
    }

    fn can_block(self) -> bool {
        self.changed == PinPolicy::Block || self.new == NewToolPolicy::Block
    }
}

/// Returns the size of a pin, in bytes.
#[must_use]
pub fn size(pin: &ToolPin) -> usize {
    let pending = pin.pending.as_ref();
    let pending_bytes = pending.map_or(0, |pending| pending.definition.len());
    pin.tool.len() + pin.definition.len() + pending_bytes
}

/// The accepted definition of a tool that was never accepted.
const NO_DEFINITION: &str = "{}";

fn new_pin(owner: PinOwner<'_>, definition: &Definition) -> ToolPin {
    ToolPin {
        server: owner.server.to_owned(),
        user: owner.user.map(str::to_owned),
        tool: definition.name.clone(),
        hash: definition.hash.clone(),
        definition: definition.text.clone(),
        accepted_at: Timestamp::now(),
        pending: None,
    }
}

/// Returns the pin of a tool that waits until it is accepted.
fn waiting_pin(owner: PinOwner<'_>, definition: &Definition) -> ToolPin {
    ToolPin {
        hash: String::new(),
        definition: NO_DEFINITION.to_owned(),
        pending: Some(pending(definition)),
        ..new_pin(owner, definition)
    }
}

/// Returns the pin of a renamed tool. Its accepted definition is that of the tool under the
/// previous name.
fn renamed_pin(predecessor: &ToolPin, definition: &Definition) -> ToolPin {
    ToolPin {
        tool: definition.name.clone(),
        pending: Some(pending(definition)),
        ..predecessor.clone()
    }
}

fn pending(definition: &Definition) -> PendingDefinition {
    PendingDefinition {
        hash: definition.hash.clone(),
        definition: definition.text.clone(),
        seen_at: Timestamp::now(),
    }
}

fn is_never_accepted(pin: &ToolPin) -> bool {
    pin.hash.is_empty()
}

/// Returns the tool's previous name if the accepted definition has another name than the tool.
fn previous_name(pin: &ToolPin) -> Option<String> {
    let accepted: serde_json::Value = serde_json::from_str(&pin.definition).ok()?;
    let name = accepted.get("name")?.as_str()?;
    (name != pin.tool).then(|| name.to_owned())
}

fn log_new(pin: &ToolPin, predecessor: Option<&str>) {
    let (server, user, tool) = (&pin.server, pin.user.as_deref(), &pin.tool);
    if let Some(previous) = predecessor {
        tracing::warn!(
            server.label = server,
            user,
            tool.name = tool,
            tool.previous_name = previous,
            "A pinned tool has another name: see `pillion pins diff`"
        );
    } else if is_never_accepted(pin) {
        tracing::warn!(
            server.label = server,
            user,
            tool.name = tool,
            "An MCP server has a new tool, which waits for `pillion pins accept`"
        );
    }
}

/// Returns the status of a pin: `accepted`, `changed`, `renamed` or `new`.
#[must_use]
pub fn status(pin: &ToolPin) -> &'static str {
    if pin.pending.is_none() {
        "accepted"
    } else if is_never_accepted(pin) {
        "new"
    } else if previous_name(pin).is_some() {
        "renamed"
    } else {
        "changed"
    }
}

/// Accepts the changed definition of a tool: the definition with the hash `hash`, or any if `hash`
/// is `None`.
///
/// # Errors
/// `not_found`; `conflict` if there is no change to accept, or a change with another hash.
pub async fn accept(
    store: &dyn Store,
    owner: PinOwner<'_>,
    tool: &str,
    hash: Option<&str>,
) -> Result<(), StoreError> {
    let found = store.pin(owner, tool).await?;
    let pin = found.ok_or_else(|| StoreError::not_found("the tool is not pinned"))?;
    let nothing =
        || StoreError::conflict("the tool's definition has not changed since it was accepted");
    let pending = pin.pending.ok_or_else(nothing)?;
    let hash = hash.unwrap_or(&pending.hash);
    store.accept_pin(owner, tool, hash, Timestamp::now()).await
}

impl std::fmt::Debug for Pins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pins").finish_non_exhaustive()
    }
}
