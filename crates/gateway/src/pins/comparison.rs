//! Compares the offered tools of a server with their pins.

use std::collections::{HashMap, HashSet};

use pillion_config::{NewToolPolicy, PinPolicy};
use pillion_core::compute;
use pillion_core::store::{PinOwner, Store, StoreError, Timestamp, ToolPin};

use super::definition::Definition;
use super::likeness::Renames;
use super::{
    PinRules, is_never_accepted, log_new, new_pin, pending, renamed_pin, size, waiting_pin,
};

/// Maximum number of pins of one owner; further tools count as changed.
const MAX_PINS: usize = 10_000;

/// Maximum size of the pins of one owner, in bytes; further definitions count as changed. A server
/// may list 16 MiB of definitions at a time.
const MAX_PIN_BYTES: usize = 32 * 1024 * 1024;

/// The tools of a list that differ from the pins, by their names on the server.
#[derive(Debug, Default)]
pub(super) struct Unaccepted {
    /// Tools with another definition or another name.
    changed: HashSet<String>,
    /// The names of tools that were added.
    new: HashSet<String>,
}

impl Unaccepted {
    pub(super) fn blocked_by(self, rules: PinRules) -> HashSet<String> {
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

/// The comparison of one list of tools with the pins of their owner.
struct Comparison<'a> {
    store: &'a dyn Store,
    owner: PinOwner<'a>,
    rules: PinRules,
    /// Whether the owner has no pins to compare the list with, so that the list is accepted.
    is_first: bool,
    pins: OwnedPins,
    found: Unaccepted,
    is_full: bool,
}

/// Compares the offered tools with their pins. Pins new tools, and records changed definitions.
pub(super) async fn compare(
    store: &dyn Store,
    owner: PinOwner<'_>,
    rules: PinRules,
    definitions: Vec<Definition>,
) -> Result<Unaccepted, StoreError> {
    let pins = store.pins(owner).await?;
    let is_first = pins.is_empty();
    let (pins, compared) = find_predecessors(owner, pins, definitions).await;
    let mut comparison = Comparison {
        store,
        owner,
        rules,
        is_first,
        pins,
        found: Unaccepted::default(),
        is_full: false,
    };
    for (definition, predecessor) in compared {
        comparison
            .check(&definition, predecessor.as_deref())
            .await?;
    }
    if comparison.is_full {
        tracing::warn!(
            server.label = owner.server,
            user = owner.user,
            "The pins of an MCP server are full: further definitions count as changed"
        );
    }
    Ok(comparison.found)
}

impl Comparison<'_> {
    /// Compares one tool; `predecessor` is its previous name.
    async fn check(
        &mut self,
        definition: &Definition,
        predecessor: Option<&str>,
    ) -> Result<(), StoreError> {
        let Definition { name, hash, .. } = definition;
        if !self.pins.by_tool.contains_key(name) && !self.add(definition, predecessor).await? {
            self.has_no_room(name, true);
            return Ok(());
        }
        let pin = &self.pins.by_tool[name];
        let known = pin.pending.as_ref();
        if pin.hash == *hash {
            if known.is_some() && !self.found.changed.contains(name) {
                self.store.set_pending_pin(self.owner, name, None).await?;
            }
            return Ok(());
        }
        let is_new = is_never_accepted(pin);
        if known.is_none_or(|pending| pending.hash != *hash) {
            let replaced = known.map_or(0, |pending| pending.definition.len());
            if !self.pins.have_room(replaced, definition.text.len()) {
                self.has_no_room(name, is_new);
                return Ok(());
            }
            self.pins.bytes = self.pins.bytes - replaced + definition.text.len();
            let pending = pending(definition);
            let noted = self.store.set_pending_pin(self.owner, name, Some(&pending));
            noted.await?;
            tracing::warn!(
                server.label = self.owner.server, user = self.owner.user, tool.name = %name,
                "The definition of a pinned tool has changed: see `pillion pins diff`"
            );
        }
        if !is_new {
            self.found.changed.insert(name.clone());
        } else if self.rules.new == NewToolPolicy::Block {
            self.found.new.insert(name.clone());
        } else {
            // The tool was blocked under a rule that no longer applies.
            let now = Timestamp::now();
            self.store.accept_pin(self.owner, name, hash, now).await?;
        }
        Ok(())
    }

    /// Pins a tool that has no pin. Returns whether there was room.
    async fn add(
        &mut self,
        definition: &Definition,
        predecessor: Option<&str>,
    ) -> Result<bool, StoreError> {
        let Self { pins, owner, .. } = self;
        let new = match predecessor.and_then(|predecessor| pins.by_tool.get(predecessor)) {
            Some(predecessor) => renamed_pin(predecessor, definition),
            None if self.is_first || self.rules.new == NewToolPolicy::Accept => {
                new_pin(*owner, definition)
            }
            None => waiting_pin(*owner, definition),
        };
        if pins.by_tool.len() >= MAX_PINS || !pins.have_room(0, size(&new)) {
            return Ok(false);
        }
        log_new(&new, predecessor);
        let pin = self.store.insert_pin(&new).await?;
        pins.bytes += size(&pin);
        pins.by_tool.insert(definition.name.clone(), pin);
        Ok(true)
    }

    /// Counts a tool whose definition does not fit as changed, and as added if it `is_new`.
    fn has_no_room(&mut self, name: &str, is_new: bool) {
        self.is_full = true;
        self.found.changed.insert(name.to_owned());
        if is_new {
            self.found.new.insert(name.to_owned());
        }
    }
}

/// Returns the pins of the owner, and for each definition of a renamed tool the tool's previous
/// name.
async fn find_predecessors(
    owner: PinOwner<'_>,
    pins: Vec<ToolPin>,
    definitions: Vec<Definition>,
) -> (OwnedPins, Vec<(Definition, Option<String>)>) {
    let pinned = pins.iter().map(size).sum::<usize>();
    let listed = definitions
        .iter()
        .map(|definition| definition.text.len())
        .sum::<usize>();
    compute::run(owner.server, pinned + listed, move || {
        let by_tool: HashMap<_, _> = pins
            .into_iter()
            .map(|pin| (pin.tool.clone(), pin))
            .collect();
        let mut renames = Renames::new(&by_tool, &definitions);
        let compared = definitions
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
        let bytes = pinned;
        (OwnedPins { by_tool, bytes }, compared)
    })
    .await
}
