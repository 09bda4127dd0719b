//! Pins of the tools of MCP servers.
//!
//! A server can change a tool after it was reviewed, and the model reads instructions in the new
//! description. Pillion therefore stores the first definition of each tool as its pin. A different
//! definition is reported, or blocks the tool until an operator accepts the change; so does a tool
//! under another name. A tool that a server adds later is accepted, or blocked like a changed one.
//! Tools that a server lists for a single user are pinned for that user only.

mod definition;
mod difference;
mod hidden;
mod likeness;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

pub(crate) use definition::Definition;
pub use difference::between;
pub use hidden::{visible, visible_json, visible_line, warnings};
use pillion_core::compute;
use pillion_core::store::{PendingDefinition, PinOwner, Store, StoreError, Timestamp, ToolPin};

use likeness::Renames;
use pillion_config::{NewToolPolicy, PinPolicy};

/// Maximum number of pins of one owner; further tools count as changed.
const MAX_PINS: usize = 10_000;

/// Maximum size of the pins of one owner, in bytes; further definitions count as changed. A server
/// may list 16 MiB of definitions at a time.
const MAX_PIN_BYTES: usize = 32 * 1024 * 1024;

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

    /// Returns which of these tools must not be offered, by their names on the server.
    ///
    /// # Errors
    /// If the tools cannot be compared, and the rules block any tool.
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

/// The tools of a list that differ from the pins, by their names on the server.
#[derive(Debug, Default)]
struct Unaccepted {
    /// Tools with another definition or another name.
    changed: HashSet<String>,
    /// Tools that were added.
    new: HashSet<String>,
}

impl Unaccepted {
    fn blocked_by(self, rules: PinRules) -> HashSet<String> {
        let mut blocked = HashSet::new();
        if rules.changed == PinPolicy::Block {
            blocked.extend(self.changed);
        }
        if rules.new == NewToolPolicy::Block {
            blocked.extend(self.new);
        }
        blocked
    }
}

/// The pins of one owner, with their size.
struct OwnedPins {
    by_tool: HashMap<String, ToolPin>,
    bytes: usize,
}

impl OwnedPins {
    /// Returns whether the pins have room when `size` bytes replace `replaced` bytes.
    fn have_room(&self, replaced: usize, size: usize) -> bool {
        self.bytes - replaced + size <= MAX_PIN_BYTES
    }
}

/// Compares the offered tools with their pins. Pins new tools, and records changed definitions.
async fn compare(
    store: &dyn Store,
    owner: PinOwner<'_>,
    rules: PinRules,
    definitions: Vec<Definition>,
) -> Result<Unaccepted, StoreError> {
    let pins = store.pins(owner).await?;
    // The first list is accepted: there is nothing to compare it with.
    let is_first = pins.is_empty();
    let (mut pins, compared) = find_predecessors(owner, pins, definitions).await;
    let mut found = Unaccepted::default();
    let mut is_full = false;
    for (definition, predecessor) in compared {
        let Definition { name, hash, .. } = &definition;
        if !pins.by_tool.contains_key(name) {
            let predecessor = predecessor.as_deref();
            let new = match predecessor.and_then(|predecessor| pins.by_tool.get(predecessor)) {
                Some(predecessor) => renamed_pin(predecessor, &definition),
                None if is_first || rules.new == NewToolPolicy::Accept => {
                    new_pin(owner, &definition)
                }
                None => waiting_pin(owner, &definition),
            };
            if pins.by_tool.len() >= MAX_PINS || !pins.have_room(0, size(&new)) {
                is_full = true;
                found.changed.insert(name.clone());
                found.new.insert(name.clone());
                continue;
            }
            log_new(&new, predecessor);
            let pin = store.insert_pin(&new).await?;
            pins.bytes += size(&pin);
            pins.by_tool.insert(name.clone(), pin);
        }
        let pin = &pins.by_tool[name];
        let known = pin.pending.as_ref();
        if pin.hash == *hash {
            if known.is_some() && !found.changed.contains(name) {
                store.set_pending_pin(owner, name, None).await?;
            }
            continue;
        }
        let is_new = is_never_accepted(pin);
        if known.is_none_or(|pending| pending.hash != *hash) {
            let replaced = known.map_or(0, |pending| pending.definition.len());
            if !pins.have_room(replaced, definition.text.len()) {
                is_full = true;
                found.changed.insert(name.clone());
                if is_new {
                    found.new.insert(name.clone());
                }
                continue;
            }
            pins.bytes = pins.bytes - replaced + definition.text.len();
            let pending = pending(&definition);
            let noted = store.set_pending_pin(owner, name, Some(&pending));
            noted.await?;
            tracing::warn!(
                server.label = owner.server, user = owner.user, tool.name = %name,
                "The definition of a pinned tool has changed: see `pillion pins diff`"
            );
        }
        if !is_new {
            found.changed.insert(name.clone());
        } else if rules.new == NewToolPolicy::Block {
            found.new.insert(name.clone());
        } else {
            // The tool waited under a rule that no longer applies.
            let now = Timestamp::now();
            store.accept_pin(owner, name, hash, now).await?;
        }
    }
    if is_full {
        tracing::warn!(
            server.label = owner.server,
            user = owner.user,
            "The pins of an MCP server are full: further definitions count as changed"
        );
    }
    Ok(found)
}

/// Returns the pins, and for each definition the previous name of a tool that has another name.
async fn find_predecessors(
    owner: PinOwner<'_>,
    pins: Vec<ToolPin>,
    definitions: Vec<Definition>,
) -> (OwnedPins, Vec<(Definition, Option<String>)>) {
    let pinned = pins.iter().map(size).sum::<usize>();
    let listed = definitions.iter().map(|definition| definition.text.len());
    let listed = listed.sum::<usize>();
    compute::run(owner.server, pinned + listed, move || {
        let by_tool: HashMap<_, _> = pins
            .into_iter()
            .map(|pin| (pin.tool.clone(), pin))
            .collect();
        let mut renames = Renames::new(&by_tool, &definitions);
        let compared = definitions.into_iter().map(|definition| {
            let is_new = !by_tool.contains_key(&definition.name);
            let predecessor = is_new
                .then(|| renames.predecessor_of(&definition))
                .flatten();
            let predecessor = predecessor.map(str::to_owned);
            (definition, predecessor)
        });
        let compared = compared.collect();
        let bytes = pinned;
        (OwnedPins { by_tool, bytes }, compared)
    })
    .await
}

/// Returns the size of a pin, in bytes.
#[must_use]
pub fn size(pin: &ToolPin) -> usize {
    let pending = pin.pending.as_ref();
    let pending = pending.map_or(0, |pending| pending.definition.len());
    pin.tool.len() + pin.definition.len() + pending
}

/// The definition of a tool that was never accepted.
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

/// Returns the pin of a tool that had another name: what was accepted is the definition under the
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

impl std::fmt::Debug for Pins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pins").finish_non_exhaustive()
    }
}
