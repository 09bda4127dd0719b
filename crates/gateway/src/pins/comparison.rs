//! Compares the offered tools of a server with their pins.

use std::collections::{HashMap, HashSet};

use pillion_config::{NewToolPolicy, PinPolicy};
use pillion_core::compute;
use pillion_core::store::{PinOwner, Store, StoreError, Timestamp, ToolPin};

use super::definition::Definition;
use super::renames::Renames;
use super::{
    PinRules, is_never_accepted, log_new_pin, new_pin, pending_definition, pin_bytes, renamed_pin,
    waiting_pin,
};

/// Maximum number of pins of one owner; further tools count as changed.
const MAX_PINS: usize = 10_000;

/// Maximum size of the pins of one owner, in bytes; further definitions count as changed. A server
/// may list 16 MiB of definitions at a time.
const MAX_PIN_BYTES: usize = 32 * 1024 * 1024;

/// The tools of a list that differ from the pins, by their names on the server.
#[derive(Debug, Default)]
pub(super) struct UnacceptedTools {
    /// The names of tools whose definition or name has changed.
    changed_names: HashSet<String>,
    /// The names of tools that were added.
    new_names: HashSet<String>,
    /// The names of tools whose definitions an operator has rejected.
    rejected_names: HashSet<String>,
}

impl UnacceptedTools {
    pub(super) fn select_blocked_names(self, rules: PinRules) -> HashSet<String> {
        let mut blocked_names = self.rejected_names;
        if rules.on_change == PinPolicy::Block {
            blocked_names.extend(self.changed_names);
        }
        if rules.on_new_tool == NewToolPolicy::Block {
            blocked_names.extend(self.new_names);
        }
        blocked_names
    }
}

/// The pins of one owner, with their size.
struct OwnedPins {
    by_tool: HashMap<String, ToolPin>,
    bytes: usize,
}

impl OwnedPins {
    /// Returns whether the pins fit into the size limit when `size` bytes replace `replaced_bytes`
    /// bytes.
    fn has_room(&self, replaced_bytes: usize, size: usize) -> bool {
        self.bytes - replaced_bytes + size <= MAX_PIN_BYTES
    }
}

/// The comparison of one list of tools with the pins of their owner.
struct PinComparison<'a> {
    store: &'a dyn Store,
    owner: PinOwner<'a>,
    rules: PinRules,
    /// Whether the owner has no pins yet, so that all tools of the list are accepted.
    is_first_list: bool,
    pins: OwnedPins,
    unaccepted_tools: UnacceptedTools,
    is_full: bool,
}

/// Compares the offered tools with their pins. Pins new tools, and records changed definitions.
pub(super) async fn compare(
    store: &dyn Store,
    owner: PinOwner<'_>,
    rules: PinRules,
    definitions: Vec<Definition>,
) -> Result<UnacceptedTools, StoreError> {
    let pins = store.pins(owner).await?;
    let is_first_list = pins.is_empty();
    let (pins, definitions_with_predecessors) = find_predecessors(owner, pins, definitions).await;
    let mut comparison = PinComparison {
        store,
        owner,
        rules,
        is_first_list,
        pins,
        unaccepted_tools: UnacceptedTools::default(),
        is_full: false,
    };
    for (definition, predecessor) in definitions_with_predecessors {
        let compare = comparison.compare_tool(&definition, predecessor.as_deref());
        compare.await?;
    }
    if comparison.is_full {
        tracing::warn!(
            server.label = owner.server,
            user = owner.user,
            "An MCP server has reached the maximum number or size of pins: further definitions \
             count as changed"
        );
    }
    Ok(comparison.unaccepted_tools)
}

impl PinComparison<'_> {
    /// Compares one tool with its pin; `predecessor` is the tool's name before it was renamed.
    async fn compare_tool(
        &mut self,
        definition: &Definition,
        predecessor: Option<&str>,
    ) -> Result<(), StoreError> {
        let Definition { name, hash, .. } = definition;
        if !self.pins.by_tool.contains_key(name) && !self.add_pin(definition, predecessor).await? {
            self.count_as_changed(name, true);
            return Ok(());
        }
        let pin = &self.pins.by_tool[name];
        let pending_pin = pin.pending.as_ref();
        if pin.hash == *hash {
            if pending_pin.is_some() && !self.unaccepted_tools.changed_names.contains(name) {
                self.store.set_pending_pin(self.owner, name, None).await?;
            }
            return Ok(());
        }
        let is_new = is_never_accepted(pin);
        let is_rejected = pin.rejected_hash.as_ref() == Some(hash);
        if pending_pin.is_none_or(|pending| pending.hash != *hash) {
            let replaced_bytes = pending_pin.map_or(0, |pending| pending.definition.len());
            if !self.pins.has_room(replaced_bytes, definition.text.len()) {
                self.count_as_changed(name, is_new);
                return Ok(());
            }
            self.pins.bytes = self.pins.bytes - replaced_bytes + definition.text.len();
            let pending = pending_definition(definition);
            let pin_update = self.store.set_pending_pin(self.owner, name, Some(&pending));
            pin_update.await?;
            tracing::warn!(
                server.label = self.owner.server, user = self.owner.user, tool.name = %name,
                "The definition of a pinned tool has changed: see `pillion pins diff`"
            );
        }
        if is_rejected {
            self.unaccepted_tools.rejected_names.insert(name.clone());
        } else if !is_new {
            self.unaccepted_tools.changed_names.insert(name.clone());
        } else if self.rules.on_new_tool == NewToolPolicy::Block {
            self.unaccepted_tools.new_names.insert(name.clone());
        } else {
            // The tool is accepted now, because the rule that blocked it no longer applies.
            let now = Timestamp::now();
            self.store.accept_pin(self.owner, name, hash, now).await?;
        }
        Ok(())
    }

    /// Pins a tool that has no pin, unless the pin would exceed the limits of the owner's pins.
    /// Returns whether the tool was pinned.
    async fn add_pin(
        &mut self,
        definition: &Definition,
        predecessor: Option<&str>,
    ) -> Result<bool, StoreError> {
        let Self { pins, owner, .. } = self;
        let added_pin = match predecessor.and_then(|name| pins.by_tool.get(name)) {
            Some(predecessor) => renamed_pin(predecessor, definition),
            None if self.is_first_list || self.rules.on_new_tool == NewToolPolicy::Accept => {
                new_pin(*owner, definition)
            }
            None => waiting_pin(*owner, definition),
        };
        if pins.by_tool.len() >= MAX_PINS || !pins.has_room(0, pin_bytes(&added_pin)) {
            return Ok(false);
        }
        log_new_pin(&added_pin, predecessor);
        let pin = self.store.insert_pin(&added_pin).await?;
        pins.bytes += pin_bytes(&pin);
        pins.by_tool.insert(definition.name.clone(), pin);
        Ok(true)
    }

    /// Counts a tool whose definition exceeds the limits of the pins as changed, and also as added
    /// if `is_new`.
    fn count_as_changed(&mut self, name: &str, is_new: bool) {
        self.is_full = true;
        self.unaccepted_tools.changed_names.insert(name.to_owned());
        if is_new {
            self.unaccepted_tools.new_names.insert(name.to_owned());
        }
    }
}

/// Returns the pins of the owner, and the definitions. A definition of a tool that was renamed is
/// paired with the tool's previous name, any other definition with `None`.
async fn find_predecessors(
    owner: PinOwner<'_>,
    pins: Vec<ToolPin>,
    definitions: Vec<Definition>,
) -> (OwnedPins, Vec<(Definition, Option<String>)>) {
    let pinned_bytes = pins.iter().map(pin_bytes).sum::<usize>();
    let listed_bytes: usize = definitions.iter().map(|tool| tool.text.len()).sum();
    compute::run(owner.server, pinned_bytes + listed_bytes, move || {
        let entries = pins.into_iter().map(|pin| (pin.tool.clone(), pin));
        let by_tool: HashMap<_, _> = entries.collect();
        let mut renames = Renames::new(&by_tool, &definitions);
        let definitions_with_predecessors = definitions
            .into_iter()
            .map(|definition| {
                let is_new = !by_tool.contains_key(&definition.name);
                let predecessor = is_new
                    .then(|| renames.find_predecessor(&definition))
                    .flatten()
                    .map(str::to_owned);
                (definition, predecessor)
            })
            .collect();
        let bytes = pinned_bytes;
        (OwnedPins { by_tool, bytes }, definitions_with_predecessors)
    })
    .await
}
