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
mod renames;

use std::collections::HashSet;
use std::sync::Arc;

pub(crate) use definition::Definition;
pub use difference::find_differences;
pub use hidden::{find_warnings, visible, visible_json, visible_line};
use pillion_core::store::{
    PendingDefinition, PinOwner, Store, StoreError, Timestamp, ToolPin, Verdict,
};

use comparison::compare;
use pillion_config::{NewToolPolicy, PinPolicy};

/// Compares the tools of servers with their pins. Cheap to clone.
#[derive(Clone, Default)]
pub struct Pins {
    store: Option<Arc<dyn Store>>,
}

impl Pins {
    /// Creates the pins in `store`; without a store, no tool is pinned.
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

    /// Returns the tools in `definitions` that must not be offered, by their names on the server.
    ///
    /// # Errors
    /// The tools cannot be compared with their pins, and the rules block changed or new tools.
    pub(crate) async fn find_blocked_names(
        &self,
        owner: PinOwner<'_>,
        rules: PinRules,
        definitions: Vec<Definition>,
    ) -> Result<HashSet<String>, String> {
        let comparison = match &self.store {
            _ if rules.is_off() => return Ok(HashSet::new()),
            None if !rules.can_block() => return Ok(HashSet::new()),
            None => {
                let reason = "pin = \"block\" and new_tools = \"block\" need a store, and this \
                           sidecar has none";
                return Err(reason.to_owned());
            }
            Some(store) => compare(&**store, owner, rules, definitions).await,
        };
        match comparison {
            Ok(unaccepted_tools) => Ok(unaccepted_tools.select_blocked_names(rules)),
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

/// The policies for a server's tools that have changed or were added.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PinRules {
    pub(crate) on_change: PinPolicy,
    pub(crate) on_new_tool: NewToolPolicy,
}

impl PinRules {
    /// Returns whether the server's tools are neither pinned nor compared with pins.
    fn is_off(self) -> bool {
        self.on_change == PinPolicy::Off && self.on_new_tool == NewToolPolicy::Accept
    }

    fn can_block(self) -> bool {
        self.on_change == PinPolicy::Block || self.on_new_tool == NewToolPolicy::Block
    }
}

/// Returns the size of a pin, in bytes.
#[must_use]
pub fn pin_bytes(pin: &ToolPin) -> usize {
    let pending = pin.pending.as_ref();
    let pending_bytes = pending.map_or(0, |pending| pending.definition.len());
    pin.tool.len() + pin.definition.len() + pending_bytes
}

/// The text that is stored in place of an accepted definition if the tool was never accepted.
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
        rejected_hash: None,
    }
}

/// Returns the pin of a tool that is not offered until an operator accepts the tool.
fn waiting_pin(owner: PinOwner<'_>, definition: &Definition) -> ToolPin {
    ToolPin {
        hash: String::new(),
        definition: NO_DEFINITION.to_owned(),
        pending: Some(pending_definition(definition)),
        ..new_pin(owner, definition)
    }
}

/// Returns the pin of a renamed tool. The accepted definition in this pin is that of the tool under
/// its previous name.
fn renamed_pin(predecessor: &ToolPin, definition: &Definition) -> ToolPin {
    ToolPin {
        tool: definition.name.clone(),
        pending: Some(pending_definition(definition)),
        rejected_hash: None,
        ..predecessor.clone()
    }
}

fn pending_definition(definition: &Definition) -> PendingDefinition {
    PendingDefinition {
        hash: definition.hash.clone(),
        definition: definition.text.clone(),
        seen_at: Timestamp::now(),
    }
}

fn is_never_accepted(pin: &ToolPin) -> bool {
    pin.hash.is_empty()
}

/// Returns the tool's previous name if the accepted definition has a name other than the tool's.
fn previous_name(pin: &ToolPin) -> Option<String> {
    let accepted_definition: serde_json::Value = serde_json::from_str(&pin.definition).ok()?;
    let name = accepted_definition.get("name")?.as_str()?;
    (name != pin.tool).then(|| name.to_owned())
}

fn log_new_pin(pin: &ToolPin, predecessor: Option<&str>) {
    let (server, user, tool) = (&pin.server, pin.user.as_deref(), &pin.tool);
    if let Some(previous) = predecessor {
        tracing::warn!(
            server.label = server,
            user,
            tool.name = tool,
            tool.previous_name = previous,
            "An MCP server renamed a pinned tool: see `pillion pins diff`"
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

/// Returns the status of the tool that a pin belongs to: `accepted`, `rejected`, `changed`,
/// `renamed` or `new`.
#[must_use]
pub fn status(pin: &ToolPin) -> &'static str {
    if pin.pending.is_none() {
        "accepted"
    } else if pin.is_rejected() {
        "rejected"
    } else if is_never_accepted(pin) {
        "new"
    } else if previous_name(pin).is_some() {
        "renamed"
    } else {
        "changed"
    }
}

/// Accepts or rejects the changed definition of a tool: the definition with the hash `hash`, or any
/// definition if `hash` is `None`. A tool is blocked while the server offers a rejected definition,
/// whatever the server's policy for changed and new tools is.
///
/// # Errors
/// `not_found` if the tool has no pin; `conflict` if the tool has no changed definition, or the
/// changed definition has another hash.
pub async fn decide(
    store: &dyn Store,
    owner: PinOwner<'_>,
    tool: &str,
    hash: Option<&str>,
    verdict: Verdict,
) -> Result<(), StoreError> {
    let stored_pin = store.find_pin(owner, tool).await?;
    let pin = stored_pin
        .ok_or_else(|| StoreError::not_found(format!("the tool '{tool}' is not pinned")))?;
    let unchanged_error = || {
        StoreError::conflict(format!(
            "the definition of the tool '{tool}' has not changed since it was accepted"
        ))
    };
    let pending_hash = pin.pending.ok_or_else(unchanged_error)?.hash;
    let hash = hash.unwrap_or(&pending_hash);
    match verdict {
        Verdict::Approved => store.accept_pin(owner, tool, hash, Timestamp::now()).await,
        _ => store.reject_pin(owner, tool, hash).await,
    }
}

impl std::fmt::Debug for Pins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pins").finish_non_exhaustive()
    }
}
