//! The tools there are, in the order they were registered (requirements B1 to B5, H3).

mod entry;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use indexmap::IndexMap;
use parking_lot::RwLock;
use serde_json::Value;

use crate::schema::SchemaError;
use crate::tool::{Tool, ToolName, ToolOrigin};
pub use entry::RegisteredTool;

/// All tools by name: insertion order kept, look-up in constant time, safe to share
/// between threads.
///
/// MCP tools live in the same map, told apart by their [`ToolOrigin`]. A tool that is
/// [not offered](Tool::is_offered) is found by its name and stands in no list; when another takes
/// its name, it stands by until that is free again.
///
/// ```
/// use std::sync::Arc;
/// use pillion_core::registry::ToolRegistry;
/// use pillion_core::tool::{FnTool, ToolDefinition, ToolOutput};
/// let registry = ToolRegistry::new();
/// let ping = ToolDefinition::builder("ping", "Says pong").build()?;
/// registry.register(Arc::new(FnTool::new(ping, |_, _| async { Ok(ToolOutput::text("pong")) })))?;
/// assert!(registry.contains("ping"));
/// assert_eq!(registry.categories(), ["general"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct ToolRegistry {
    inner: RwLock<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    tools: IndexMap<ToolName, Arc<RegisteredTool>>,
    /// Those that take their names when these are free.
    standing_by: HashMap<ToolName, Arc<RegisteredTool>>,
    aliases: HashMap<String, ToolName>,
}

/// Why a tool or an alias cannot be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The name is taken (B1); [`ToolRegistry::replace`] is for doing it on purpose.
    #[error("Tool '{0}' already registered")]
    AlreadyRegistered(ToolName),
    /// The tool's schema is no valid JSON Schema.
    #[error("Tool '{name}': {source}")]
    InvalidSchema {
        /// The tool's name.
        name: ToolName,
        /// What is wrong with the schema.
        #[source]
        source: SchemaError,
    },
    /// An alias points at a tool that is not there.
    #[error("Tool '{0}' is not registered")]
    UnknownAliasTarget(String),
    /// An alias would hide a tool of that name.
    #[error("The alias '{0}' is the name of a registered tool")]
    AliasIsTool(String),
}

/// What became of a tool that was [put](ToolRegistry::put) into a registry.
#[derive(Debug, Clone)]
pub struct Put {
    /// The tool.
    pub entry: Arc<RegisteredTool>,
    /// Where it is now.
    pub outcome: Placed,
    /// The one whose place it has taken, registered or standing by as it is itself.
    pub before: Option<Arc<RegisteredTool>>,
}

/// Where a tool is that was put into a registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    /// It is registered under a name that was free.
    Added,
    /// It is registered in the place of another.
    Replaced,
    /// Another tool has its name.
    StandsBy,
}

impl Inner {
    /// Registers a tool in the place of one of its name, which stands by if it was not offered.
    fn insert(&mut self, entry: Arc<RegisteredTool>) -> Option<Arc<RegisteredTool>> {
        let name = entry.name().clone();
        let is_offered = entry.is_offered();
        let before = self.tools.insert(name.clone(), entry)?;
        if is_offered && !before.is_offered() {
            let waiting = self.standing_by.entry(name);
            waiting.or_insert_with(|| Arc::clone(&before));
        }
        Some(before)
    }

    /// Removes the tool of that name, for the sake of one that stands by.
    fn remove(&mut self, name: &str) -> bool {
        if let Some((name, next)) = self.standing_by.remove_entry(name) {
            return self.tools.insert(name, next).is_some();
        }
        let is_removed = self.tools.shift_remove(name).is_some();
        if is_removed {
            self.aliases.retain(|_, target| target.as_str() != name);
        }
        is_removed
    }
}

static GLOBAL: LazyLock<Arc<ToolRegistry>> = LazyLock::new(Arc::default);

impl ToolRegistry {
    /// An empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The one registry of this process (B2). Prefer to pass a registry around; this is
    /// for places that cannot be handed one.
    #[must_use]
    pub fn global() -> Arc<Self> {
        Arc::clone(&GLOBAL)
    }

    /// Adds a tool after all others, or in the place of one of its name that is not offered.
    ///
    /// # Errors
    /// [`RegistryError::AlreadyRegistered`] when the name is taken;
    /// [`RegistryError::InvalidSchema`] when a tool that is not from an MCP server has a
    /// schema that cannot be compiled. (An MCP tool is kept all the same: its server
    /// validates, and one odd schema must not hide a tool.)
    pub fn register(&self, tool: Arc<dyn Tool>) -> Result<(), RegistryError> {
        self.register_over(tool, |_| false).map(drop)
    }

    /// As [`register`](Self::register), and in the place of one of its name if `may_replace` says so
    /// of that one, which is returned: between the question and the answer nobody takes the name.
    ///
    /// # Errors
    /// As for [`register`](Self::register).
    pub fn register_over(
        &self,
        tool: Arc<dyn Tool>,
        may_replace: impl FnOnce(&RegisteredTool) -> bool,
    ) -> Result<Option<Arc<RegisteredTool>>, RegistryError> {
        let entry = RegisteredTool::new(tool)?;
        let mut inner = self.inner.write();
        let taken = inner.tools.get(entry.name());
        let taken = taken.filter(|taken| taken.is_offered() || !entry.is_offered());
        if taken.is_some_and(|taken| !may_replace(taken)) {
            return Err(RegistryError::AlreadyRegistered(entry.name().clone()));
        }
        Ok(inner.insert(Arc::new(entry)))
    }

    /// Adds a tool, in place of the one with its name if there is one, which is returned.
    /// A call that is running goes on with the old tool.
    ///
    /// # Errors
    /// [`RegistryError::InvalidSchema`], as for [`register`](Self::register).
    pub fn replace(
        &self,
        tool: Arc<dyn Tool>,
    ) -> Result<Option<Arc<RegisteredTool>>, RegistryError> {
        let entry = RegisteredTool::new(tool)?;
        let mut inner = self.inner.write();
        Ok(inner.insert(Arc::new(entry)))
    }

    /// Adds a tool if its name is free, or if `may_replace` says so of the one that has it: then
    /// there is no moment without a tool of that name. Otherwise it stands by, in the place of one
    /// that did so before, and is registered when the name is free. [`withdraw`](Self::withdraw)
    /// takes it back.
    ///
    /// # Errors
    /// [`RegistryError::InvalidSchema`], as for [`register`](Self::register).
    pub fn put(
        &self,
        tool: Arc<dyn Tool>,
        may_replace: impl FnOnce(&Arc<RegisteredTool>) -> bool,
    ) -> Result<Put, RegistryError> {
        let entry = Arc::new(RegisteredTool::new(tool)?);
        let mut inner = self.inner.write();
        let holder = inner.tools.get(entry.name());
        let outcome = match holder.map(may_replace) {
            None => Placed::Added,
            Some(true) => Placed::Replaced,
            Some(false) => Placed::StandsBy,
        };
        let (name, tool) = (entry.name().clone(), Arc::clone(&entry));
        let before = match outcome {
            Placed::StandsBy => inner.standing_by.insert(name, tool),
            Placed::Added | Placed::Replaced => inner.tools.insert(name, tool),
        };
        Ok(Put {
            entry,
            outcome,
            before,
        })
    }

    /// Takes back this very tool, wherever it is; whether it was registered.
    pub fn withdraw(&self, tool: &Arc<RegisteredTool>) -> bool {
        let mut inner = self.inner.write();
        let name = tool.name().as_str();
        let is_it =
            |other: Option<&Arc<RegisteredTool>>| other.is_some_and(|it| Arc::ptr_eq(it, tool));
        if is_it(inner.standing_by.get(name)) {
            inner.standing_by.remove(name);
        }
        is_it(inner.tools.get(name)) && inner.remove(name)
    }

    /// Adds those tools whose names are free and returns the names it added: start-up code
    /// may run twice (B3).
    ///
    /// # Errors
    /// [`RegistryError::InvalidSchema`]; the tools before it stay registered.
    pub fn register_missing(
        &self,
        tools: impl IntoIterator<Item = Arc<dyn Tool>>,
    ) -> Result<Vec<ToolName>, RegistryError> {
        let mut added = Vec::new();
        for tool in tools {
            let name = tool.definition().name().clone();
            match self.register(tool) {
                Ok(()) => added.push(name),
                Err(RegistryError::AlreadyRegistered(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(added)
    }

    /// Lets calls name `target` as `alias` too (H3). Setting an alias again moves it.
    ///
    /// # Errors
    /// [`RegistryError::UnknownAliasTarget`] or [`RegistryError::AliasIsTool`].
    pub fn alias(&self, alias: &str, target: &str) -> Result<(), RegistryError> {
        let mut inner = self.inner.write();
        if inner.tools.contains_key(alias) {
            return Err(RegistryError::AliasIsTool(alias.to_owned()));
        }
        let Some((name, _)) = inner.tools.get_key_value(target) else {
            return Err(RegistryError::UnknownAliasTarget(target.to_owned()));
        };
        let name = name.clone();
        inner.aliases.insert(alias.to_owned(), name);
        Ok(())
    }

    /// Removes a tool and the aliases that point at it; says whether it was there. One that has
    /// stood by takes its place.
    pub fn unregister(&self, name: &str) -> bool {
        self.inner.write().remove(name)
    }

    /// Removes every tool and alias.
    pub fn clear(&self) {
        let mut inner = self.inner.write();
        inner.tools.clear();
        inner.standing_by.clear();
        inner.aliases.clear();
    }

    /// The tool with that name or alias; a tool's own name wins over an alias.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<RegisteredTool>> {
        let inner = self.inner.read();
        inner
            .tools
            .get(name)
            .or_else(|| inner.tools.get(inner.aliases.get(name)?))
            .cloned()
    }

    /// Whether a name is that of this tool, or an alias of it.
    #[must_use]
    pub fn means(&self, name: &str, tool: &RegisteredTool) -> bool {
        name == tool.name().as_str() || {
            let inner = self.inner.read();
            !inner.tools.contains_key(name) && inner.aliases.get(name) == Some(tool.name())
        }
    }

    /// Whether there is a tool with that name or alias.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Whether a tool is offered under that name or alias, so that no other can be.
    #[must_use]
    pub fn is_taken(&self, name: &str) -> bool {
        self.get(name).is_some_and(|tool| tool.is_offered())
    }

    /// How many tools are offered; aliases do not count.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offered(|tools| tools.count())
    }

    /// Whether no tool is offered at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tools in order of registration; those of one category if it is named.
    #[must_use]
    pub fn tools(&self, category: Option<&str>) -> Vec<Arc<RegisteredTool>> {
        self.matching(|entry| category.is_none_or(|wanted| entry.definition().category() == wanted))
    }

    /// The tools from MCP servers (B4).
    #[must_use]
    pub fn mcp_tools(&self) -> Vec<Arc<RegisteredTool>> {
        self.matching(|entry| entry.origin().is_mcp())
    }

    /// The tools that are not from MCP servers.
    #[must_use]
    pub fn native_tools(&self) -> Vec<Arc<RegisteredTool>> {
        self.matching(|entry| matches!(entry.origin(), ToolOrigin::Native))
    }

    /// The names of the tools that are offered.
    #[must_use]
    pub fn names(&self) -> Vec<ToolName> {
        self.offered(|tools| tools.map(|entry| entry.name().clone()).collect())
    }

    /// The categories, each once, in the order of their first tool.
    #[must_use]
    pub fn categories(&self) -> Vec<String> {
        let mut categories = Vec::new();
        self.offered(|tools| {
            for entry in tools {
                let category = entry.definition().category();
                if !categories.iter().any(|known| known == category) {
                    categories.push(category.to_owned());
                }
            }
        });
        categories
    }

    /// The schemas of [`tools`](Self::tools) in the nested form of requirement A3.
    #[must_use]
    pub fn schemas(&self, category: Option<&str>) -> Vec<Value> {
        self.tools(category)
            .iter()
            .map(|entry| entry.definition().to_schema())
            .collect()
    }

    fn matching(&self, wanted: impl Fn(&RegisteredTool) -> bool) -> Vec<Arc<RegisteredTool>> {
        self.offered(|tools| tools.filter(|entry| wanted(entry)).cloned().collect())
    }

    fn offered<T>(
        &self,
        read: impl FnOnce(&mut dyn Iterator<Item = &Arc<RegisteredTool>>) -> T,
    ) -> T {
        let inner = self.inner.read();
        read(&mut inner.tools.values().filter(|entry| entry.is_offered()))
    }
}

#[cfg(test)]
mod tests;
